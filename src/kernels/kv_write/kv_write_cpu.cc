#include "kernels/kv_write/kv_write.h"

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

template <typename T>
void NarrowVector(const float* x, int32_t n, T* out) {
  constexpr int kLanes = Vec::kLanes;
  int32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Vec::Load(x + i).Store(out + i);
  if (i < n) Vec::LoadPartial(x + i, n - i).StorePartial(out + i, n - i);
}

template <typename T>
void WriteRows(const KvWriteArgs& args, Stream& stream) {
  const KvLayout layout = args.layout;
  T* pool = static_cast<T*>(args.pool);
  const int64_t bytes_per_row =
      int64_t{2} * layout.num_kv_heads * layout.head_dim * (sizeof(float) + sizeof(T));
  ParallelRows(args.num_rows, bytes_per_row, stream, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      if (args.row_page[row] < 0) continue;
      T* keys = pool + layout.KeyOffset(args.row_page[row], args.layer, 0, args.row_slot[row]);
      T* values = keys + layout.KeyElements();
      const float* k = args.k + row * args.row_stride;
      const float* v = args.v + row * args.row_stride;
      for (int32_t head = 0; head < layout.num_kv_heads; ++head) {
        const int64_t from = int64_t{head} * layout.head_dim;
        const int64_t to = head * layout.HeadElements();
        NarrowVector(k + from, layout.head_dim, keys + to);
        NarrowVector(v + from, layout.head_dim, values + to);
      }
    }
  });
}

}  // namespace

void KvWrite(const KvWriteArgs& args, Stream& stream) {
  switch (args.layout.dtype) {
    case DType::kF32:
      return WriteRows<float>(args, stream);
    case DType::kBF16:
      return WriteRows<Bfloat16>(args, stream);
    case DType::kF16:
      return WriteRows<Float16>(args, stream);
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
