#include "kernels/token_loss/token_loss.h"

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int64_t kTokenLossPart = 512;  // terms that are summed in float, before doubles take over

// The derivative of a capped logit by what was capped, of one or of several. Within a few last
// places of 1, also where almost nothing is left of it.
template <typename V>
inline V SlopeOfCap(V logit, V cap, V one) {
  const V share = logit / cap;
  return (one - share) * (one + share);
}

// logits become exp(logit - max), times their slopes where they are capped; returns the sum of
// exp(logit - max).
template <bool kCapped>
double ExpRow(float* logits, int64_t n, float max, float cap) {
  constexpr int kLanes = Vec::kLanes;
  double total = 0.0;
  for (int64_t begin = 0; begin < n; begin += kTokenLossPart) {
    const int64_t end = begin + kTokenLossPart < n ? begin + kTokenLossPart : n;
    Vec sum = Vec::Zero();
    for (int64_t i = begin; i < end; i += kLanes) {
      const int lanes = end - i < kLanes ? static_cast<int>(end - i) : kLanes;
      const Vec logit = Vec::LoadPartial(logits + i, lanes);
      const Vec e = ExpOrZero(logit - Vec::Set(max));
      e.StorePartial(logits + i, lanes);
      sum = sum + (lanes < kLanes ? Vec::LoadPartial(logits + i, lanes) : e);
      if constexpr (kCapped) {
        (e * SlopeOfCap(logit, Vec::Set(cap), Vec::Set(1.0f))).StorePartial(logits + i, lanes);
      }
    }
    total += static_cast<double>(sum.Sum());
  }
  return total;
}

// What a row's choices are before its logits become their exponentials.
struct RowChoices {
  float powers[kTokenChoicesMax];  // exp(logit - max), the bits that ExpRow adds up
  float slopes[kTokenChoicesMax];
  double chosen = 0.0;       // the sum of p (logit - max), without the rest's
  double probability = 0.0;  // of p, without the rest's
  double rest = 0.0;         // its p
};

void ReadChoices(const TokenLossArgs& args, int64_t row, float max, RowChoices* choices) {
  const float* logits = args.logits + row * args.vocab_size;
  for (int32_t k = 0; k < args.num_choices; ++k) {
    const int32_t id = args.ids[row * args.num_choices + k];
    const auto p = static_cast<double>(args.probabilities[row * args.num_choices + k]);
    if (id == kTokenRest) {
      choices->rest += p;
      continue;
    }
    const float logit = logits[id];
    choices->chosen += p * (static_cast<double>(logit) - static_cast<double>(max));
    choices->probability += p;
    ExpOrZero(Vec::Set(logit - max)).StorePartial(&choices->powers[k], 1);
    choices->slopes[k] = args.logit_cap > 0.0f ? SlopeOfCap(logit, args.logit_cap, 1.0f) : 1.0f;
  }
}

// The loss and the gradients of a row that has kTokenRest. The sum of its tokens is what the other
// choices leave of `sum`, so none of these tokens has to be looked for.
void RestRow(const TokenLossArgs& args, int64_t row, const RowChoices& choices, double sum) {
  float* logits = args.logits + row * args.vocab_size;
  const int32_t* ids = args.ids + row * args.num_choices;
  const float* probabilities = args.probabilities + row * args.num_choices;
  double probability = choices.rest;
  double others = sum;  // of the rest's tokens
  for (int32_t k = 0; k < args.num_choices; ++k) {
    if (ids[k] == kTokenRest) continue;
    probability += static_cast<double>(probabilities[k]);
    others -= static_cast<double>(choices.powers[k]);
  }
  others = others > kRestShareMin * sum ? others : kRestShareMin * sum;
  args.losses[row] =
      probability * __builtin_log(sum) - choices.chosen - choices.rest * __builtin_log(others);
  const float row_weight = args.weights[row] * args.logit_scale;
  const auto weight = static_cast<double>(row_weight);
  const auto factor = static_cast<float>(probability / sum * weight);
  const auto rest_factor = static_cast<float>((probability / sum - choices.rest / others) * weight);
  for (int64_t i = 0; i < args.vocab_size; ++i) logits[i] *= rest_factor;
  for (int32_t k = 0; k < args.num_choices; ++k) {
    if (ids[k] == kTokenRest) continue;
    logits[ids[k]] =
        (factor * choices.powers[k] - row_weight * probabilities[k]) * choices.slopes[k];
  }
}

void TokenLossRow(const TokenLossArgs& args, int64_t row) {
  float* logits = args.logits + row * args.vocab_size;
  const int32_t* ids = args.ids + row * args.num_choices;
  const float* probabilities = args.probabilities + row * args.num_choices;
  float max = logits[0];
  for (int64_t i = 1; i < args.vocab_size; ++i) max = logits[i] > max ? logits[i] : max;
  RowChoices choices;
  ReadChoices(args, row, max, &choices);
  const double sum = args.logit_cap > 0.0f
                         ? ExpRow<true>(logits, args.vocab_size, max, args.logit_cap)
                         : ExpRow<false>(logits, args.vocab_size, max, 0.0f);
  if (choices.rest > 0.0) return RestRow(args, row, choices, sum);
  args.losses[row] = choices.probability * __builtin_log(sum) - choices.chosen;
  const float weight = args.weights[row] * args.logit_scale;
  const auto factor = static_cast<float>(choices.probability / sum * static_cast<double>(weight));
  for (int64_t i = 0; i < args.vocab_size; ++i) logits[i] *= factor;
  for (int32_t k = 0; k < args.num_choices; ++k) {
    if (ids[k] == kTokenRest) continue;
    logits[ids[k]] -= weight * probabilities[k] * choices.slopes[k];
  }
}

}  // namespace

void TokenLoss(const TokenLossArgs& args, Stream& stream) {
  ParallelRows(args.num_rows, args.vocab_size * 16, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) TokenLossRow(args, row);
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
