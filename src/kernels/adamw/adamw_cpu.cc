#include "kernels/adamw/adamw.h"

#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int64_t kAdamWPart = 1024;  // elements that a thread takes at a time

// In order: the norm, too, is the same on any number of threads.
double SumOfGradientSquares(const float* gradients, int64_t n) {
  double total = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    total += static_cast<double>(gradients[i]) * static_cast<double>(gradients[i]);
  }
  return total;
}

double PowerOf(double base, int32_t exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 != 0) power *= base;
  }
  return power;
}

class AdamWRun {
 public:
  explicit AdamWRun(const AdamWItem& item)
      : item_(item),
        first_bias_(1.0 - PowerOf(item.beta1, item.step)),
        second_root_(__builtin_sqrt(1.0 - PowerOf(item.beta2, item.step))) {
    *item.norm = __builtin_sqrt(SumOfGradientSquares(item.gradients, item.n));
    // The constant is PyTorch's.
    const double clip = static_cast<double>(item.norm_max) / (*item.norm + 1e-6);
    if (item.norm_max > 0.0f && clip < 1.0) clip_ = static_cast<float>(clip);
  }

  void Update(int64_t begin, int64_t end) const {
    constexpr int kLanes = Vec::kLanes;
    const Vec decay = Vec::Set(1.0f - item_.learning_rate * item_.weight_decay);
    const Vec step = Vec::Set(static_cast<float>(-item_.learning_rate / first_bias_));
    const Vec root = Vec::Set(static_cast<float>(1.0 / second_root_));
    const Vec fresh1 = Vec::Set(1.0f - item_.beta1), fresh2 = Vec::Set(1.0f - item_.beta2);
    for (int64_t i = begin; i < end; i += kLanes) {
      const int lanes = end - i < kLanes ? static_cast<int>(end - i) : kLanes;
      const Vec g = Vec::LoadPartial(item_.gradients + i, lanes) * Vec::Set(clip_);
      const Vec m =
          Fma(fresh1, g, Vec::Set(item_.beta1) * Vec::LoadPartial(item_.first_moments + i, lanes));
      const Vec v = Fma(fresh2, g * g,
                        Vec::Set(item_.beta2) * Vec::LoadPartial(item_.second_moments + i, lanes));
      m.StorePartial(item_.first_moments + i, lanes);
      v.StorePartial(item_.second_moments + i, lanes);
      const Vec scale = Fma(SquareRoot(v), root, Vec::Set(item_.epsilon));
      const Vec parameter = Vec::LoadPartial(item_.parameters + i, lanes) * decay;
      Fma(step, m / scale, parameter).StorePartial(item_.parameters + i, lanes);
    }
  }

 private:
  static Vec SquareRoot(Vec v) {
    float lanes[Vec::kLanes];
    v.Store(lanes);
    for (float& lane : lanes) lane = __builtin_sqrtf(lane);
    return Vec::Load(lanes);
  }

  const AdamWItem& item_;
  const double first_bias_;
  const double second_root_;
  float clip_ = 1.0f;
};

}  // namespace

void AdamW(const AdamWArgs& args, Stream& stream) {
  for (int32_t i = 0; i < args.num_items; ++i) {
    const AdamWRun run(args.items[i]);
    stream.cpu_threads->ParallelFor(args.items[i].n, kAdamWPart,
                                    [&](int64_t begin, int64_t end) { run.Update(begin, end); });
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
