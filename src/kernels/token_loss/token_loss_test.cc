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

// Rows' losses and gradients in double.
struct LossReference {
  LossReference(const Input<float>& logits, const Shared<int32_t>& ids,
                const Shared<float>& probabilities, const Shared<float>& weights, int64_t vocab,
                int32_t num_choices) {
    for (int64_t row = 0; row < kRows; ++row) {
      double sum = 0.0;
      for (int64_t i = 0; i < vocab; ++i) sum += std::exp(logits.At(row * vocab + i));
      std::vector<double> wanted(static_cast<size_t>(vocab));
      std::vector<bool> is_choice(static_cast<size_t>(vocab));
      double loss = 0.0, probability = 0.0, rest = 0.0, others = 0.0;
      for (int32_t k = 0; k < num_choices; ++k) {
        const auto at = static_cast<size_t>(row * num_choices + k);
        const auto p = static_cast<double>(probabilities[at]);
        probability += p;
        if (ids[at] == kTokenRest) {
          rest += p;
          continue;
        }
        wanted[static_cast<size_t>(ids[at])] += p;
        is_choice[static_cast<size_t>(ids[at])] = true;
        loss += p * (std::log(sum) - logits.At(row * vocab + ids[at]));
      }
      for (int64_t i = 0; i < vocab; ++i) {
        if (!is_choice[static_cast<size_t>(i)]) others += std::exp(logits.At(row * vocab + i));
      }
      if (rest > 0.0) loss += rest * (std::log(sum) - std::log(others));
      for (int64_t i = 0; i < vocab; ++i) {
        if (is_choice[static_cast<size_t>(i)] || rest == 0.0) continue;
        wanted[static_cast<size_t>(i)] = rest * std::exp(logits.At(row * vocab + i)) / others;
      }
      losses.push_back(loss);
      for (int64_t i = 0; i < vocab; ++i) {
        const double softmax = std::exp(logits.At(row * vocab + i)) / sum;
        gradients.push_back(static_cast<double>(weights[static_cast<size_t>(row)]) *
                            (probability * softmax - wanted[static_cast<size_t>(i)]));
      }
    }
  }
  std::vector<double> losses, gradients;
};

// One token, and three whose probabilities leave some to others, two of them the same where the
// vocabulary is small; four of which one is all other tokens, in some rows with no probability.
TEST(TokenLossTest, MatchesReference) {
  for (const int64_t vocab : {2, 17, 1000, 4096}) {
    for (const int32_t num_choices : {1, 3, 4}) {
      const bool has_rest = num_choices == 4;
      if (has_rest && vocab < num_choices) continue;  // they must differ
      const auto logits = Input<float>::Normal(kRows * vocab, 1, 0, 3.0);
      std::vector<int32_t> id_list;
      std::vector<float> probability_list, weight_list;
      for (int32_t row = 0; row < kRows; ++row) {
        for (int32_t k = 0; k < num_choices; ++k) {
          const bool is_rest = has_rest && k == row % num_choices;
          id_list.push_back(is_rest ? kTokenRest : static_cast<int32_t>((row * 7 + k) % vocab));
          probability_list.push_back(num_choices == 1 ? 1.0f : 0.5f / static_cast<float>(1 + k));
          if (is_rest && row % 5 == 0) probability_list.back() = 0.0f;
        }
        weight_list.push_back(0.25f * static_cast<float>(row % 4));
      }
      const Shared<int32_t> ids(id_list);
      const Shared<float> probabilities(probability_list), weights(weight_list);
      const LossReference reference(logits, ids, probabilities, weights, vocab, num_choices);
      TokenLossArgs args{.num_rows = kRows,
                         .vocab_size = vocab,
                         .num_choices = num_choices,
                         .ids = ids.data(),
                         .probabilities = probabilities.data(),
                         .weights = weights.data()};
      const auto run = [&](Stream& stream, auto& gradients, double tolerance) {
        Output<double> losses(kRows);
        args.losses = losses.data();
        TokenLoss(args, stream);
        Synchronize(stream);
        EXPECT_TRUE(gradients.GuardsIntact() && losses.GuardsIntact());
        for (int64_t row = 0; row < kRows; ++row) {
          EXPECT_NEAR(losses[row], reference.losses[static_cast<size_t>(row)], 1e-5);
        }
        for (int64_t i = 0; i < kRows * vocab; ++i) {
          const double expected = reference.gradients[static_cast<size_t>(i)];
          ASSERT_NEAR(gradients.At(i), expected, 1e-6 + tolerance * std::fabs(expected));
        }
      };
      testing::ForEachDevice([&](Stream& stream) {
        Output<float> gradients(logits, 0);
        args.logits = gradients.data();
        run(stream, gradients, 0.0);
      });
      testing::ForFirstGpu([&](Stream& stream) {
        Output<float> kept(logits, 0);
        Output<Bfloat16> gradients(kRows * vocab);
        args.logits = kept.data();
        args.d_logits = gradients.data();
        args.d_dtype = DType::kBF16;
        run(stream, gradients, testing::kBF16Tolerance);
        EXPECT_TRUE(testing::BitEqual(kept.data(), logits.data(), kRows * vocab));
      });
    }
  }
}

}  // namespace token_loss_test
}  // namespace graft
