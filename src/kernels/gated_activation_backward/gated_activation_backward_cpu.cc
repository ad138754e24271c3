#include "kernels/gated_activation_backward/gated_activation_backward.h"

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

// f(gate) is gate * sigmoid(t). `steepness` is gate dt/dgate, by which f' = sigmoid (1 + steepness
// (1 - sigmoid)).
struct GateTerms {
  Vec exponent;  // -t
  Vec steepness;
};

template <Activation kActivation>
inline GateTerms TermsOf(Vec gate) {
  const Vec exponent = Vec::Zero() - gate;
  if constexpr (kActivation == Activation::kSilu) return {exponent, gate};
  const Vec one = Vec::Set(1.0f);
  const Vec two_c = Vec::Set(1.5957691216f);  // 2 sqrt(2 / pi)
  const Vec factor = Fma(gate * gate, Vec::Set(0.044715f), one);
  // Beyond 20 on either side f is 0 or the gate itself, and the cube must not overflow.
  const Vec x = Max(Vec::Set(-20.0f), Min(Vec::Set(20.0f), gate));
  return {exponent * factor * two_c, x * two_c * Fma(x * x, Vec::Set(0.134145f), one)};
}

template <Activation kActivation>
void GatedActivationBackwardRow(const GatedActivationBackwardArgs& args, int64_t row) {
  constexpr int kLanes = Vec::kLanes;
  const float* gates = static_cast<const float*>(args.gate_up) + row * 2 * args.n;
  float* d_gates = static_cast<float*>(args.d_gate_up) + row * 2 * args.n;
  const float* d_out = static_cast<const float*>(args.d_out) + row * args.n;
  const Vec one = Vec::Set(1.0f);
  for (int64_t i = 0; i < args.n; i += kLanes) {
    const int lanes = args.n - i < kLanes ? static_cast<int>(args.n - i) : kLanes;
    const Vec gate = Vec::LoadPartial(gates + i, lanes);
    const Vec up = Vec::LoadPartial(gates + args.n + i, lanes);
    const Vec d = Vec::LoadPartial(d_out + i, lanes);
    const GateTerms terms = TermsOf<kActivation>(gate);
    const Vec sigmoid = one / (one + Exp(terms.exponent));
    const Vec slope = sigmoid * Fma(terms.steepness, one - sigmoid, one);
    (d * up * slope).StorePartial(d_gates + i, lanes);
    (d * gate * sigmoid).StorePartial(d_gates + args.n + i, lanes);
  }
}

template <Activation kActivation>
void GatedActivationBackwardRows(const GatedActivationBackwardArgs& args, Stream& stream) {
  ParallelRows(args.num_rows, args.n * 20, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) GatedActivationBackwardRow<kActivation>(args, row);
  });
}

}  // namespace

void GatedActivationBackward(const GatedActivationBackwardArgs& args, Stream& stream) {
  switch (args.activation) {
    case Activation::kSilu:
      return GatedActivationBackwardRows<Activation::kSilu>(args, stream);
    case Activation::kGeluTanh:
      return GatedActivationBackwardRows<Activation::kGeluTanh>(args, stream);
    case Activation::kGelu:
    case Activation::kRelu:
      return;  // checked before
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
