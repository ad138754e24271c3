#include "kernels/activate_backward/activate_backward.h"

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int64_t kActivateBackwardGrain = 4096;  // elements of a task

// Max and Min return their second operand where one is NaN, so that it spreads.
inline Vec Within(Vec x, float bound) { return Max(Vec::Set(-bound), Min(Vec::Set(bound), x)); }

// f(x) is x sigmoid(t). `steepness` is x dt/dx, by which f' = sigmoid (1 + steepness (1 -
// sigmoid)).
inline Vec SlopeOfSigmoid(Vec exponent, Vec steepness) {
  const Vec one = Vec::Set(1.0f);
  const Vec sigmoid = one / (one + Exp(exponent));
  return sigmoid * Fma(steepness, one - sigmoid, one);
}

inline Vec SlopeOfGeluTanh(Vec x) {
  const Vec one = Vec::Set(1.0f);
  const Vec two_c = Vec::Set(1.5957691216f);  // 2 sqrt(2 / pi)
  // Beyond 20 on either side f is 0 or x itself, and the cube must not overflow.
  const Vec y = Within(x, 20.0f);
  const Vec square = y * y;
  const Vec exponent = (Vec::Zero() - y) * Fma(square, Vec::Set(0.044715f), one) * two_c;
  return SlopeOfSigmoid(exponent, y * two_c * Fma(square, Vec::Set(0.134145f), one));
}

// Phi(x) + x phi(x). With Q = 1 - Phi as Activate has it, and g = Q(|x|) - |x| phi(|x|), that is g
// below 0 and 1 - g above it; both are 1/2 at 0.
inline Vec SlopeOfGelu(Vec x) {
  const Vec y = Within(x, 20.0f);
  const Vec size = Max(y, Vec::Zero() - y);
  const Vec t = Vec::Set(1.0f) / Fma(size, Vec::Set(0.3275911f * 0.70710678f), Vec::Set(1.0f));
  Vec p = Vec::Set(0.5f * 1.061405429f);
  p = Fma(p, t, Vec::Set(0.5f * -1.453152027f));
  p = Fma(p, t, Vec::Set(0.5f * 1.421413741f));
  p = Fma(p, t, Vec::Set(0.5f * -0.284496736f));
  p = Fma(p, t, Vec::Set(0.5f * 0.254829592f));
  const Vec density = Vec::Set(0.3989422804f);  // phi(0)
  const Vec g = Fma(p, t, Vec::Zero() - size * density) * Exp(size * size * Vec::Set(-0.5f));
  const Vec half = Vec::Set(0.5f);
  return Fma(Within(y * Vec::Set(1e30f), 1.0f), half - g, half);  // by the sign of x
}

// In two steps, so that the least x above 0 comes to 1.
inline Vec SlopeOfRelu(Vec x) {
  const Vec large = Vec::Set(1e38f);
  return Min(Vec::Set(1.0f), Max(Vec::Zero(), x * large * large));
}

template <Activation kActivation>
inline Vec SlopeOf(Vec x) {
  switch (kActivation) {
    case Activation::kSilu:
      return SlopeOfSigmoid(Vec::Zero() - x, x);
    case Activation::kGeluTanh:
      return SlopeOfGeluTanh(x);
    case Activation::kGelu:
      return SlopeOfGelu(x);
    case Activation::kRelu:
      return SlopeOfRelu(x);
  }
}

template <Activation kActivation>
void BackwardElements(const ActivateBackwardArgs& args, Stream& stream) {
  constexpr int kLanes = Vec::kLanes;
  const auto* const x = static_cast<const float*>(args.x);
  const auto* const d_out = static_cast<const float*>(args.d_out);
  auto* const d_x = static_cast<float*>(args.d_x);
  const int64_t num_tasks = (args.n + kActivateBackwardGrain - 1) / kActivateBackwardGrain;
  ParallelRows(num_tasks, kActivateBackwardGrain * 12, stream, [&](int64_t begin, int64_t end) {
    const int64_t last =
        end * kActivateBackwardGrain < args.n ? end * kActivateBackwardGrain : args.n;
    for (int64_t i = begin * kActivateBackwardGrain; i < last; i += kLanes) {
      const int lanes = last - i < kLanes ? static_cast<int>(last - i) : kLanes;
      const Vec slope = SlopeOf<kActivation>(Vec::LoadPartial(x + i, lanes));
      (Vec::LoadPartial(d_out + i, lanes) * slope).StorePartial(d_x + i, lanes);
    }
  });
}

}  // namespace

void ActivateBackward(const ActivateBackwardArgs& args, Stream& stream) {
  switch (args.activation) {
    case Activation::kSilu:
      return BackwardElements<Activation::kSilu>(args, stream);
    case Activation::kGeluTanh:
      return BackwardElements<Activation::kGeluTanh>(args, stream);
    case Activation::kGelu:
      return BackwardElements<Activation::kGelu>(args, stream);
    case Activation::kRelu:
      return BackwardElements<Activation::kRelu>(args, stream);
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
