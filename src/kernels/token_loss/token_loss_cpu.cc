#include "kernels/token_loss/token_loss.h"

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int64_t kTokenLossPart = 512;  // terms that are summed in float, before doubles take over

// logits become exp(logit - max); returns their sum.
double ExpRow(float* logits, int64_t n, float max) {
  constexpr int kLanes = Vec::kLanes;
  double total = 0.0;
  for (int64_t begin = 0; begin < n; begin += kTokenLossPart) {
    const int64_t end = begin + kTokenLossPart < n ? begin + kTokenLossPart : n;
    Vec sum = Vec::Zero();
    for (int64_t i = begin; i < end; i += kLanes) {
      const int lanes = end - i < kLanes ? static_cast<int>(end - i) : kLanes;
      const Vec e = ExpOrZero(Vec::LoadPartial(logits + i, lanes) - Vec::Set(max));
      e.StorePartial(logits + i, lanes);
      sum = sum + (lanes < kLanes ? Vec::LoadPartial(logits + i, lanes) : e);
    }
    total += static_cast<double>(sum.Sum());
  }
  return total;
}

struct RestSums {
  double sum;     // of the row's exp(logit - max)
  double chosen;  // of p (logit - max), without the rest's
  double rest;    // its p
};

// What is left of a row that has kTokenRest, of whose tokens none is to be looked for.
void RestRow(const TokenLossArgs& args, int64_t row, const RestSums& sums) {
  float* logits = args.logits + row * args.vocab_size;
  const int32_t* ids = args.ids + row * args.num_choices;
  const float* probabilities = args.probabilities + row * args.num_choices;
  float powers[kTokenChoicesMax];
  double probability = sums.rest;
  double others = sums.sum;  // of the rest's tokens
  for (int32_t k = 0; k < args.num_choices; ++k) {
    if (ids[k] == kTokenRest) continue;
    powers[k] = logits[ids[k]];
    probability += static_cast<double>(probabilities[k]);
    others -= static_cast<double>(powers[k]);
  }
  others = others > kRestShareMin * sums.sum ? others : kRestShareMin * sums.sum;
  args.losses[row] =
      probability * __builtin_log(sums.sum) - sums.chosen - sums.rest * __builtin_log(others);
  const auto weight = static_cast<double>(args.weights[row]);
  const auto factor = static_cast<float>(probability / sums.sum * weight);
  const auto rest_factor =
      static_cast<float>((probability / sums.sum - sums.rest / others) * weight);
  for (int64_t i = 0; i < args.vocab_size; ++i) logits[i] *= rest_factor;
  for (int32_t k = 0; k < args.num_choices; ++k) {
    if (ids[k] == kTokenRest) continue;
    logits[ids[k]] = factor * powers[k] - args.weights[row] * probabilities[k];
  }
}

void TokenLossRow(const TokenLossArgs& args, int64_t row) {
  float* logits = args.logits + row * args.vocab_size;
  const int32_t* ids = args.ids + row * args.num_choices;
  const float* probabilities = args.probabilities + row * args.num_choices;
  float max = logits[0];
  for (int64_t i = 1; i < args.vocab_size; ++i) max = logits[i] > max ? logits[i] : max;
  double chosen = 0.0;
  double probability = 0.0;
  double rest = 0.0;
  for (int32_t k = 0; k < args.num_choices; ++k) {
    const auto p = static_cast<double>(probabilities[k]);
    if (ids[k] == kTokenRest) {
      rest += p;
      continue;
    }
    chosen += p * (static_cast<double>(logits[ids[k]]) - static_cast<double>(max));
    probability += p;
  }
  const double sum = ExpRow(logits, args.vocab_size, max);
  if (rest > 0.0) return RestRow(args, row, {.sum = sum, .chosen = chosen, .rest = rest});
  args.losses[row] = probability * __builtin_log(sum) - chosen;
  const auto factor =
      static_cast<float>(probability / sum * static_cast<double>(args.weights[row]));
  for (int64_t i = 0; i < args.vocab_size; ++i) logits[i] *= factor;
  for (int32_t k = 0; k < args.num_choices; ++k) {
    if (ids[k] != kTokenRest) logits[ids[k]] -= args.weights[row] * probabilities[k];
  }
}

}  // namespace

void TokenLoss(const TokenLossArgs& args, Stream& stream) {
  ParallelRows(args.num_rows, args.vocab_size * 16, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) TokenLossRow(args, row);
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
