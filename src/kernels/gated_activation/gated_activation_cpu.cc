#include "kernels/gated_activation/gated_activation.h"

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

template <Activation kActivation>
inline Vec GatedUp(Vec gate, Vec up) {
  const Vec one = Vec::Set(1.0f);
  Vec exponent = Vec::Zero() - gate;
  if constexpr (kActivation == Activation::kGeluTanh) {
    const Vec factor = Fma(gate * gate, Vec::Set(0.044715f), one);
    exponent = exponent * factor * Vec::Set(1.5957691216f);  // 2 sqrt(2 / pi)
  }
  return gate / (one + Exp(exponent)) * up;
}

template <Activation kActivation, typename T>
void MultiplyRow(const float* gate, const float* up, int64_t n, T* out) {
  constexpr int kLanes = Vec::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    GatedUp<kActivation>(Vec::Load(gate + i), Vec::Load(up + i)).Store(out + i);
  }
  if (i < n) {
    const int left = static_cast<int>(n - i);
    GatedUp<kActivation>(Vec::LoadPartial(gate + i, left), Vec::LoadPartial(up + i, left))
        .StorePartial(out + i, left);
  }
}

template <typename T>
void CopyGateUp(const float* gate_up, int64_t n, T* out) {
  constexpr int kLanes = Vec::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Vec::Load(gate_up + i).Store(out + i);
  if (i == n) return;
  const int left = static_cast<int>(n - i);
  Vec::LoadPartial(gate_up + i, left).StorePartial(out + i, left);
}

template <Activation kActivation, typename T>
void MultiplyRows(const GatedActivationArgs& args, Stream& stream) {
  const int64_t n = args.n;
  const int64_t bytes_per_row = n * (2 * sizeof(float) + sizeof(T));
  ParallelRows(args.num_tokens, bytes_per_row, stream, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const float* gate = args.gate_up + token * 2 * n;
      MultiplyRow<kActivation>(gate, gate + n, n, static_cast<T*>(args.out) + token * n);
      if (args.copy == nullptr) continue;
      CopyGateUp(gate, 2 * n, static_cast<T*>(args.copy) + token * 2 * n);
    }
  });
}

template <Activation kActivation>
void MultiplyAs(const GatedActivationArgs& args, Stream& stream) {
  switch (args.out_dtype) {
    case DType::kF32:
      return MultiplyRows<kActivation, float>(args, stream);
    case DType::kBF16:
      return MultiplyRows<kActivation, Bfloat16>(args, stream);
    case DType::kF16:
      return MultiplyRows<kActivation, Float16>(args, stream);
  }
}

}  // namespace

void GatedActivation(const GatedActivationArgs& args, Stream& stream) {
  switch (args.activation) {
    case Activation::kSilu:
      return MultiplyAs<Activation::kSilu>(args, stream);
    case Activation::kGeluTanh:
      return MultiplyAs<Activation::kGeluTanh>(args, stream);
    case Activation::kGelu:
    case Activation::kRelu:
      return;  // checked before
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
