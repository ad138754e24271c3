#include "kernels/silu_mul/silu_mul.h"

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

inline Vec GatedUp(Vec gate, Vec up) {
  const Vec one = Vec::Set(1.0f);
  return gate / (one + Exp(Vec::Zero() - gate)) * up;
}

template <typename T>
void MultiplyRow(const float* gate, const float* up, int64_t n, T* out) {
  constexpr int kLanes = Vec::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    GatedUp(Vec::Load(gate + i), Vec::Load(up + i)).Store(out + i);
  }
  if (i < n) {
    const int left = static_cast<int>(n - i);
    GatedUp(Vec::LoadPartial(gate + i, left), Vec::LoadPartial(up + i, left))
        .StorePartial(out + i, left);
  }
}

template <typename T>
void MultiplyRows(const SiluMulArgs& args, Stream& stream) {
  const int64_t n = args.n;
  const int64_t bytes_per_row = n * (2 * sizeof(float) + sizeof(T));
  ParallelRows(args.num_tokens, bytes_per_row, stream, [&](int64_t begin, int64_t end) {
    for (int64_t token = begin; token < end; ++token) {
      const float* gate = args.gate_up + token * 2 * n;
      MultiplyRow(gate, gate + n, n, static_cast<T*>(args.out) + token * n);
    }
  });
}

}  // namespace

void SiluMul(const SiluMulArgs& args, Stream& stream) {
  switch (args.out_dtype) {
    case DType::kF32:
      return MultiplyRows<float>(args, stream);
    case DType::kBF16:
      return MultiplyRows<Bfloat16>(args, stream);
    case DType::kF16:
      return MultiplyRows<Float16>(args, stream);
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
