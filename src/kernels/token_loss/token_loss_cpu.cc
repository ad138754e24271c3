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

void TokenLossRow(const TokenLossArgs& args, int64_t row) {
  float* logits = args.logits + row * args.vocab_size;
  const int32_t* ids = args.ids + row * args.num_choices;
  const float* probabilities = args.probabilities + row * args.num_choices;
  float max = logits[0];
  for (int64_t i = 1; i < args.vocab_size; ++i) max = logits[i] > max ? logits[i] : max;
  double chosen = 0.0;
  double probability = 0.0;
  for (int32_t k = 0; k < args.num_choices; ++k) {
    const auto p = static_cast<double>(probabilities[k]);
    chosen += p * (static_cast<double>(logits[ids[k]]) - static_cast<double>(max));
    probability += p;
  }
  const double sum = ExpRow(logits, args.vocab_size, max);
  args.losses[row] = probability * __builtin_log(sum) - chosen;
  const auto factor =
      static_cast<float>(probability / sum * static_cast<double>(args.weights[row]));
  for (int64_t i = 0; i < args.vocab_size; ++i) logits[i] *= factor;
  for (int32_t k = 0; k < args.num_choices; ++k) {
    logits[ids[k]] -= args.weights[row] * probabilities[k];
  }
}

}  // namespace

void TokenLoss(const TokenLossArgs& args, Stream& stream) {
  ParallelRows(args.num_rows, args.vocab_size * 16, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) TokenLossRow(args, row);
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
