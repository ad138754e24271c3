#include "kernels/gated_activation_backward/gated_activation_backward.h"

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

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
    const Vec sigmoid = one / (one + Exp(Vec::Zero() - gate));
    const Vec slope = sigmoid * Fma(gate, one - sigmoid, one);  // of silu
    (d * up * slope).StorePartial(d_gates + i, lanes);
    (d * gate * sigmoid).StorePartial(d_gates + args.n + i, lanes);
  }
}

}  // namespace

void GatedActivationBackward(const GatedActivationBackwardArgs& args, Stream& stream) {
  ParallelRows(args.num_rows, args.n * 20, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) GatedActivationBackwardRow(args, row);
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
