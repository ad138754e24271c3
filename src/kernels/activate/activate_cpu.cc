#include "kernels/activate/activate.h"

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int64_t kActivateGrain = 4096;  // elements of a task

// x Phi(x) = max(x, 0) - |x| Q(|x|), where Q = 1 - Phi is a polynomial in 1 / (1 + p |x| / sqrt 2)
// times e^(-x^2 / 2): Abramowitz and Stegun, 7.1.26, which is off by 7.5e-8 at most. Q is the same
// as 0 beyond 20. Max and Min return their second operand where one is NaN, so that it spreads.
inline Vec GeluOf(Vec x) {
  const Vec size = Min(Vec::Set(20.0f), Max(x, Vec::Zero() - x));
  const Vec t = Vec::Set(1.0f) / Fma(size, Vec::Set(0.3275911f * 0.70710678f), Vec::Set(1.0f));
  Vec p = Vec::Set(0.5f * 1.061405429f);
  p = Fma(p, t, Vec::Set(0.5f * -1.453152027f));
  p = Fma(p, t, Vec::Set(0.5f * 1.421413741f));
  p = Fma(p, t, Vec::Set(0.5f * -0.284496736f));
  p = Fma(p, t, Vec::Set(0.5f * 0.254829592f));
  const Vec q = p * t * Exp(size * size * Vec::Set(-0.5f));
  return Max(Vec::Zero(), x) - size * q;
}

template <Activation kActivation>
inline Vec Activated(Vec x) {
  const Vec one = Vec::Set(1.0f);
  const Vec minus = Vec::Zero() - x;
  switch (kActivation) {
    case Activation::kSilu:
      return x / (one + Exp(minus));
    case Activation::kGeluTanh:
      return x / (one + Exp(minus * Fma(x * x, Vec::Set(0.044715f), one) *
                            Vec::Set(1.5957691216f)));  // 2 sqrt(2 / pi)
    case Activation::kGelu:
      return GeluOf(x);
    case Activation::kRelu:
      return Max(Vec::Zero(), x);
  }
}

template <Activation kActivation, typename T>
void ActivateElements(const ActivateArgs& args, Stream& stream) {
  constexpr int kLanes = Vec::kLanes;
  T* const out = static_cast<T*>(args.out);
  T* const copy = static_cast<T*>(args.copy);
  const int64_t num_tasks = (args.n + kActivateGrain - 1) / kActivateGrain;
  const int64_t bytes = kActivateGrain * static_cast<int64_t>(sizeof(float) + sizeof(T));
  ParallelRows(num_tasks, bytes, stream, [&](int64_t begin, int64_t end) {
    const int64_t last = end * kActivateGrain < args.n ? end * kActivateGrain : args.n;
    for (int64_t i = begin * kActivateGrain; i < last; i += kLanes) {
      const int left = last - i < kLanes ? static_cast<int>(last - i) : kLanes;
      const auto store = [&](Vec values, T* to) {
        left == kLanes ? values.Store(to + i) : values.StorePartial(to + i, left);
      };
      const Vec x = left == kLanes ? Vec::Load(args.x + i) : Vec::LoadPartial(args.x + i, left);
      if (copy != nullptr) store(x, copy);
      store(Activated<kActivation>(x), out);
    }
  });
}

template <Activation kActivation>
void ActivateAs(const ActivateArgs& args, Stream& stream) {
  switch (args.out_dtype) {
    case DType::kF32:
      return ActivateElements<kActivation, float>(args, stream);
    case DType::kBF16:
      return ActivateElements<kActivation, Bfloat16>(args, stream);
    case DType::kF16:
      return ActivateElements<kActivation, Float16>(args, stream);
  }
}

}  // namespace

void Activate(const ActivateArgs& args, Stream& stream) {
  switch (args.activation) {
    case Activation::kSilu:
      return ActivateAs<Activation::kSilu>(args, stream);
    case Activation::kGeluTanh:
      return ActivateAs<Activation::kGeluTanh>(args, stream);
    case Activation::kGelu:
      return ActivateAs<Activation::kGelu>(args, stream);
    case Activation::kRelu:
      return ActivateAs<Activation::kRelu>(args, stream);
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
