#include "kernels/embedding/embedding.h"

#include <algorithm>

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

template <typename T>
void WidenRow(const T* row, float scale, int64_t n, float* out) {
  constexpr int kLanes = Vec::kLanes;
  const Vec factor = Vec::Set(scale);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) (Vec::Load(row + i) * factor).Store(out + i);
  if (i < n) {
    const int left = static_cast<int>(n - i);
    (Vec::LoadPartial(row + i, left) * factor).StorePartial(out + i, left);
  }
}

template <typename T>
void GatherRows(const EmbeddingArgs& args, Stream& stream) {
  const T* table = static_cast<const T*>(args.table);
  const int64_t bytes_per_row = args.n * (sizeof(float) + sizeof(T));
  ParallelRows(args.num_tokens, bytes_per_row, stream, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = int64_t{args.tokens[i]} - args.first_word;
      float* const out = args.out + i * args.n;
      if (row >= 0 && row < args.vocab_size) {
        WidenRow(table + row * args.n, args.scale, args.n, out);
      } else {
        std::fill_n(out, args.n, 0.0f);
      }
    }
  });
}

}  // namespace

void Embedding(const EmbeddingArgs& args, Stream& stream) {
  switch (args.dtype) {
    case DType::kF32:
      return GatherRows<float>(args, stream);
    case DType::kBF16:
      return GatherRows<Bfloat16>(args, stream);
    case DType::kF16:
      return GatherRows<Float16>(args, stream);
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
