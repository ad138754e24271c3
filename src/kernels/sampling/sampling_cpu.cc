#include "kernels/common/simd.h"
#include "kernels/sampling/row_scan.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int kLanes = Vec::kLanes;
constexpr float kLowestFloat = -3.402823466e38f;

inline Vec LoadUpTo(const float* p, int n) {
  return n < kLanes ? Vec::LoadPartial(p, n) : Vec::Load(p);
}

}  // namespace

void ScanRow(const ScanRowArgs& args, Stream&) {
  // 0 * x is NaN for NaN and +Inf; -Inf is lifted to the lowest float first (Max returns its second
  // operand if either is NaN).
  const Vec lowest = Vec::Set(kLowestFloat);
  Vec flaw = Vec::Zero();
  for (int32_t begin = 0; begin < args.n; begin += kScanBlock) {
    const int32_t end = begin + kScanBlock < args.n ? begin + kScanBlock : args.n;
    Vec maximum = Vec::Set(-__builtin_inff());
    int32_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      const Vec logits = Vec::Load(args.logits + i);
      maximum = Max(maximum, logits);
      flaw = Fma(Max(lowest, logits), Vec::Zero(), flaw);
    }
    float block_maximum = maximum.Max();
    for (; i < end; ++i) {
      const float logit = args.logits[i];
      if (logit > block_maximum) block_maximum = logit;
      if (!(logit < __builtin_inff())) flaw = Vec::Set(__builtin_nanf(""));
    }
    args.maxima[begin / kScanBlock] = block_maximum;
  }
  *args.finite = flaw.Sum() == 0.0f;
}

void WeighRow(const WeighRowArgs& args, Stream&) {
  const Vec maximum = Vec::Set(args.maximum);
  const Vec inverse_temperature = Vec::Set(args.inverse_temperature);
  for (int32_t begin = 0; begin < args.n; begin += kScanBlock) {
    const int32_t end = begin + kScanBlock < args.n ? begin + kScanBlock : args.n;
    Vec sum = Vec::Zero();
    for (int32_t i = begin; i < end; i += kLanes) {
      const int count = end - i < kLanes ? end - i : kLanes;
      const Vec exponent = (LoadUpTo(args.logits + i, count) - maximum) * inverse_temperature;
      Vec weight = ExpOrZero(exponent);
      if (count < kLanes) {
        float lanes[kLanes] = {};
        weight.StorePartial(lanes, count);
        weight = Vec::Load(lanes);
      }
      sum = sum + weight;
      if (args.weights != nullptr) weight.StorePartial(args.weights + i, count);
    }
    args.sums[begin / kScanBlock] = sum.Sum();
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
