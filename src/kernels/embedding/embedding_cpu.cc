#include "kernels/embedding/embedding.h"

#include <algorithm>

#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

// kAdd: to what is there.
template <bool kAdd, typename T>
void WidenRow(const T* row, float scale, int64_t n, float* out) {
  constexpr int kLanes = Vec::kLanes;
  const Vec factor = Vec::Set(scale);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec widened = Vec::Load(row + i) * factor;
    (kAdd ? Vec::Load(out + i) + widened : widened).Store(out + i);
  }
  if (i < n) {
    const int left = static_cast<int>(n - i);
    const Vec widened = Vec::LoadPartial(row + i, left) * factor;
    (kAdd ? Vec::LoadPartial(out + i, left) + widened : widened).StorePartial(out + i, left);
  }
}

template <bool kAdd, typename T>
void GatherRows(const EmbeddingArgs& args, Stream& stream) {
  const T* table = static_cast<const T*>(args.table);
  const int64_t bytes_per_row = args.n * (sizeof(float) + sizeof(T));
  ParallelRows(args.num_tokens, bytes_per_row, stream, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = int64_t{args.tokens[i]} - args.first_word;
      float* const out = args.out + i * args.n;
      if (row >= 0 && row < args.vocab_size) {
        WidenRow<kAdd>(table + row * args.n, args.scale, args.n, out);
      } else if (!kAdd) {
        std::fill_n(out, args.n, 0.0f);
      }
    }
  });
}

template <typename T>
void GatherOrAddRows(const EmbeddingArgs& args, Stream& stream) {
  if (args.accumulate) return GatherRows<true, T>(args, stream);
  GatherRows<false, T>(args, stream);
}

}  // namespace

void Embedding(const EmbeddingArgs& args, Stream& stream) {
  switch (args.dtype) {
    case DType::kF32:
      return GatherOrAddRows<float>(args, stream);
    case DType::kBF16:
      return GatherOrAddRows<Bfloat16>(args, stream);
    case DType::kF16:
      return GatherOrAddRows<Float16>(args, stream);
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
