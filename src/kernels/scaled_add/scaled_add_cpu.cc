#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"
#include "kernels/scaled_add/scaled_add.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int64_t kScaledAddGrain = 4096;  // elements of a task

template <bool kAdd, typename T>
void ScaleElements(const ScaledAddArgs& args, int64_t begin, int64_t end) {
  constexpr int kLanes = Vec::kLanes;
  const Vec scale = Vec::Set(args.scale);
  for (int64_t i = begin; i < end; i += kLanes) {
    const float* x = args.x + i;
    T* y = static_cast<T*>(args.y) + i;
    if (end - i >= kLanes) {
      const Vec value = Vec::Load(x);
      (kAdd ? Fma(value, scale, Vec::Load(y)) : value * scale).Store(y);
    } else {
      const int left = static_cast<int>(end - i);
      const Vec value = Vec::LoadPartial(x, left);
      (kAdd ? Fma(value, scale, Vec::LoadPartial(y, left)) : value * scale).StorePartial(y, left);
    }
  }
}

template <typename T, bool kAdd = false>
void ScaleAll(const ScaledAddArgs& args, Stream& stream) {
  const int64_t num_tasks = (args.n + kScaledAddGrain - 1) / kScaledAddGrain;
  const int64_t task_bytes = kScaledAddGrain * int64_t{2 * sizeof(float) + sizeof(T)};
  ParallelRows(num_tasks, task_bytes, stream, [&](int64_t begin, int64_t end) {
    const int64_t last = end * kScaledAddGrain < args.n ? end * kScaledAddGrain : args.n;
    ScaleElements<kAdd, T>(args, begin * kScaledAddGrain, last);
  });
}

}  // namespace

void ScaledAdd(const ScaledAddArgs& args, Stream& stream) {
  switch (args.y_dtype) {
    case DType::kF32:
      if (args.accumulate) return ScaleAll<float, true>(args, stream);
      return ScaleAll<float>(args, stream);
    case DType::kBF16:
      return ScaleAll<Bfloat16>(args, stream);
    case DType::kF16:
      return ScaleAll<Float16>(args, stream);
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
