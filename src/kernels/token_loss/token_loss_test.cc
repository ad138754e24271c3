#include "kernels/token_loss/token_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace token_loss_test {

using testing::Input;
using testing::Output;
using testing::Shared;

constexpr int64_t kRows = 21;

// What a model makes of its head's results: c tanh(s z / c).
struct Head {
  float scale = 1.0f;
  float cap = 0.0f;

  double Logit(double z) const {
    const double scaled = static_cast<double>(scale) * z;
    if (cap == 0.0f) return scaled;
    return static_cast<double>(cap) * std::tanh(scaled / static_cast<double>(cap));
  }
  double Slope(double z) const {
    if (cap == 0.0f) return static_cast<double>(scale);
    const double tanh = Logit(z) / static_cast<double>(cap);
    return static_cast<double>(scale) * (1.0 - tanh * tanh);
  }
};

// The choices of each row. One choice has probability 1. Three leave some probability to other
// tokens, and two of them are the same token in a vocabulary of 2. Where there are four, one stands
// for all other tokens, and has no probability in some rows.
struct Targets {
  Targets(int64_t vocab, int32_t num_choices) : vocab(vocab), num_choices(num_choices) {
    std::vector<int32_t> id_list;
    std::vector<float> probability_list, weight_list;
    for (int32_t row = 0; row < kRows; ++row) {
      for (int32_t k = 0; k < num_choices; ++k) {
        const bool is_rest = num_choices == 4 && k == row % num_choices;
        id_list.push_back(is_rest ? kTokenRest : static_cast<int32_t>((row * 7 + k) % vocab));
        probability_list.push_back(num_choices == 1 ? 1.0f : 0.5f / static_cast<float>(1 + k));
        if (is_rest && row % 5 == 0) probability_list.back() = 0.0f;
      }
      weight_list.push_back(0.25f * static_cast<float>(row % 4));
    }
    ids = Shared<int32_t>(id_list);
    probabilities = Shared<float>(probability_list);
    weights = Shared<float>(weight_list);
  }

  double Weight(int64_t row) const {
    return static_cast<double>(weights[static_cast<size_t>(row)]);
  }

  // The loss of a row of logits [vocab], in double. Appends its derivatives to `gradients`, if that
  // is not null.
  double Loss(const std::vector<double>& logits, int64_t row,
              std::vector<double>* gradients = nullptr) const {
    double sum = 0.0;
    for (const double logit : logits) sum += std::exp(logit);
    std::vector<double> wanted(logits.size());
    std::vector<bool> is_choice(logits.size());
    double loss = 0.0, probability = 0.0, rest = 0.0, others = 0.0;
    for (int32_t k = 0; k < num_choices; ++k) {
      const auto at = static_cast<size_t>(row * num_choices + k);
      const auto p = static_cast<double>(probabilities[at]);
      probability += p;
      if (ids[at] == kTokenRest) {
        rest += p;
        continue;
      }
      const auto id = static_cast<size_t>(ids[at]);
      wanted[id] += p;
      is_choice[id] = true;
      loss += p * (std::log(sum) - logits[id]);
    }
    for (size_t i = 0; i < logits.size(); ++i) {
      if (!is_choice[i]) others += std::exp(logits[i]);
    }
    if (rest > 0.0) loss += rest * (std::log(sum) - std::log(others));
    if (gradients == nullptr) return loss;
    for (size_t i = 0; i < logits.size(); ++i) {
      if (!is_choice[i] && rest > 0.0) wanted[i] = rest * std::exp(logits[i]) / others;
      gradients->push_back(probability * std::exp(logits[i]) / sum - wanted[i]);
    }
    return loss;
  }

  TokenLossArgs Args(const Head& head) const {
    return {.num_rows = kRows,
            .vocab_size = vocab,
            .num_choices = num_choices,
            .ids = ids.data(),
            .probabilities = probabilities.data(),
            .weights = weights.data(),
            .logit_scale = head.scale,
            .logit_cap = head.cap};
  }

  int64_t vocab;
  int32_t num_choices;
  Shared<int32_t> ids{};
  Shared<float> probabilities{}, weights{};
};

std::vector<double> RowOf(const Input<float>& values, int64_t row, int64_t n) {
  std::vector<double> out;
  for (int64_t i = row * n; i < (row + 1) * n; ++i) out.push_back(values.At(i));
  return out;
}

Input<float> LogitsOf(const Input<float>& z, const Head& head) {
  Input<float> logits(z.size());
  for (int64_t i = 0; i < z.size(); ++i) logits[i] = static_cast<float>(head.Logit(z.At(i)));
  return logits;
}

// T: of the gradients; on the CPU and where they are fp32, in place of the logits.
template <typename T>
void ExpectMatchesReference(const Targets& targets, const Head& head, Stream& stream) {
  SCOPED_TRACE(std::to_string(targets.vocab) + " of " + std::to_string(targets.num_choices) +
               " choices, cap " + std::to_string(head.cap));
  const int64_t vocab = targets.vocab;
  const auto z = Input<float>::Normal(kRows * vocab, 1, 0, 3.0);
  const Input<float> logits = LogitsOf(z, head);
  Output<float> in_place(logits, 0);
  Output<T> apart(kRows * vocab);
  Output<double> losses(kRows);
  const bool is_apart = DTypeOf<T>() != DType::kF32;
  TokenLossArgs args = targets.Args(head);
  args.logits = in_place.data();
  args.losses = losses.data();
  if (is_apart) {
    args.d_logits = apart.data();
    args.d_dtype = DTypeOf<T>();
  }
  TokenLoss(args, stream);
  Synchronize(stream);
  EXPECT_TRUE(in_place.GuardsIntact() && apart.GuardsIntact() && losses.GuardsIntact());
  const double tolerance = is_apart ? testing::ToleranceOf(DTypeOf<T>()) : 0.0;
  for (int64_t row = 0; row < kRows; ++row) {
    std::vector<double> gradients;
    const double loss = targets.Loss(RowOf(logits, row, vocab), row, &gradients);
    EXPECT_NEAR(losses[row], loss, 1e-5);
    for (int64_t i = 0; i < vocab; ++i) {
      const int64_t at = row * vocab + i;
      const double expected =
          targets.Weight(row) * gradients[static_cast<size_t>(i)] * head.Slope(z.At(at));
      const double actual = is_apart ? apart.At(at) : in_place.At(at);
      ASSERT_NEAR(actual, expected, 1e-6 + tolerance * std::fabs(expected)) << row << " " << i;
    }
  }
  if (is_apart) {
    EXPECT_TRUE(testing::BitEqual(in_place.data(), logits.data(), logits.size()));
  }
}

const Head kHeads[] = {{}, {0.25f, 0.0f}, {1.0f, 30.0f}, {1.0f, 2.0f}, {0.5f, 4.0f}};

TEST(TokenLossTest, MatchesReference) {
  for (const int64_t vocab : {2, 17, 1000, 4096}) {
    for (const int32_t num_choices : {1, 3, 4}) {
      if (num_choices == 4 && vocab < num_choices) continue;  // with a rest they must differ
      const Targets targets(vocab, num_choices);
      for (const Head& head : kHeads) {
        testing::ForEachDevice(
            [&](Stream& stream) { ExpectMatchesReference<float>(targets, head, stream); });
        testing::ForFirstGpu(
            [&](Stream& stream) { ExpectMatchesReference<Bfloat16>(targets, head, stream); });
      }
    }
  }
}

// From what the head returned to the loss in double, and its derivatives by differences.
TEST(TokenLossTest, IsTheDerivativeByWhatTheHeadReturned) {
  constexpr int64_t kVocab = 17;
  const auto z = Input<float>::Normal(kRows * kVocab, 1, 0, 3.0);
  for (const int32_t num_choices : {1, 3, 4}) {
    const Targets targets(kVocab, num_choices);
    for (const Head& head : kHeads) {
      testing::ForEachDevice([&](Stream& stream) {
        Output<float> gradients(LogitsOf(z, head), 0);
        Output<double> losses(kRows);
        TokenLossArgs args = targets.Args(head);
        args.logits = gradients.data();
        args.losses = losses.data();
        TokenLoss(args, stream);
        Synchronize(stream);
        for (int64_t row = 0; row < kRows; ++row) {
          std::vector<double> results = RowOf(z, row, kVocab);
          const auto loss = [&] {
            std::vector<double> logits;
            for (const double result : results) logits.push_back(head.Logit(result));
            return targets.Weight(row) * targets.Loss(logits, row);
          };
          for (int64_t i = 0; i < kVocab; ++i) {
            const double expected =
                testing::NumericDerivative(&results[static_cast<size_t>(i)], loss);
            ASSERT_NEAR(gradients.At(row * kVocab + i), expected, 2e-6) << row << " " << i;
          }
        }
      });
    }
  }
}

// A logit at its cap has no gradient, whatever the loss says.
TEST(TokenLossTest, NothingIsLearnedOfLogitsAtTheirCap) {
  const Shared<int32_t> ids{1, kTokenRest};
  const Shared<float> probabilities{0.5f, 0.5f}, weights{1.0f};
  testing::ForEachDevice([&](Stream& stream) {
    const Shared<float> logits{5.0f, -5.0f, 1.0f};
    Shared<float> gradients = {logits[0], logits[1], logits[2]};
    Output<double> losses(1);
    TokenLoss({.logits = gradients.data(),
               .num_rows = 1,
               .vocab_size = 3,
               .num_choices = 2,
               .ids = ids.data(),
               .probabilities = probabilities.data(),
               .weights = weights.data(),
               .losses = losses.data(),
               .logit_cap = 5.0f},
              stream);
    Synchronize(stream);
    EXPECT_EQ(gradients[0], 0.0f);
    EXPECT_EQ(gradients[1], 0.0f);
    EXPECT_NE(gradients[2], 0.0f);
    EXPECT_GT(losses[0], 0.0);
  });
}

TEST(TokenLossTest, NoRowsTouchNothing) {
  testing::ForEachDevice([&](Stream& stream) { TokenLoss({.logit_cap = 1.0f}, stream); });
}

TEST(TokenLossDeathTest, RefusesBadArguments) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  float logits[] = {1.0f, 2.0f};
  const float one = 1.0f;
  int32_t id = 1;
  double loss = 0.0;
  TokenLossArgs args{.logits = logits,
                     .num_rows = 1,
                     .vocab_size = 2,
                     .num_choices = 1,
                     .ids = &id,
                     .probabilities = &one,
                     .weights = &one,
                     .losses = &loss};
  TokenLoss(args, stream);
  args.logit_cap = -1.0f;
  EXPECT_DEATH(TokenLoss(args, stream), "logit_cap");
  args.logit_cap = 0.0f;
  id = 2;
  EXPECT_DEATH(TokenLoss(args, stream), "2");
}

}  // namespace token_loss_test
}  // namespace graft
