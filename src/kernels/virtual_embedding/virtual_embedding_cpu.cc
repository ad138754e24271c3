#include "kernels/common/parallel_rows.h"
#include "kernels/common/simd.h"
#include "kernels/virtual_embedding/virtual_embedding.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

template <typename T>
void WidenVirtualRow(const T* row, int64_t n, float* out) {
  constexpr int kLanes = Vec::kLanes;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Vec::Load(row + i).Store(out + i);
  if (i < n) {
    const int left = static_cast<int>(n - i);
    Vec::LoadPartial(row + i, left).StorePartial(out + i, left);
  }
}

template <typename T>
void CopyRuns(const VirtualEmbeddingArgs& args, Stream& stream) {
  const int64_t bytes_per_run = args.run_tokens_max * args.n * (sizeof(float) + sizeof(T));
  ParallelRows(args.num_runs, bytes_per_run, stream, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const VirtualRun& run = args.runs[i];
      const VirtualRows rows = args.table[run.adapter_slot];
      float* out = args.out + run.place * args.n;
      for (int32_t token = run.token_begin; token < run.token_end; ++token, out += args.n) {
        WidenVirtualRow(static_cast<const T*>(rows[token]), args.n, out);
      }
    }
  });
}

}  // namespace

void VirtualEmbedding(const VirtualEmbeddingArgs& args, Stream& stream) {
  switch (args.dtype) {
    case DType::kF32:
      return CopyRuns<float>(args, stream);
    case DType::kBF16:
      return CopyRuns<Bfloat16>(args, stream);
    case DType::kF16:
      return CopyRuns<Float16>(args, stream);
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
