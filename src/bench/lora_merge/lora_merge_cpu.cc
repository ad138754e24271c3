// A thread copies a panel of W and adds to it, slice by slice: lanes are W's rows, so that both
// dtypes' layouts (gemm_layout.h) are read and written in whole vectors. B of a panel is widened
// once, A in blocks of kBlock columns.
#include <cstring>

#include "bench/lora_merge/lora_merge_work.h"
#include "kernels/common/simd.h"
#include "kernels/gemm/gemm_layout.h"

namespace graft::GRAFT_CPU_NAMESPACE {
namespace {

constexpr int kLanes = Vec::kLanes;
constexpr int kVecs = static_cast<int>(kGemmPanel) / kLanes;
constexpr int64_t kBlock = 64;

// One slice's share of a panel: of its rows [begin, end), B is `b` with zeros elsewhere.
struct PanelSlice {
  int32_t rank;
  float scale;
  alignas(64) float b[kLoraRankMax][kGemmPanel];
  alignas(64) float a[kLoraRankMax][kBlock];  // of the block of columns at hand
};

template <typename T>
void WidenRow(const T* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Vec::Load(from + i).Store(to + i);
  const int left = static_cast<int>(n - i);
  if (left > 0) Vec::LoadPartial(from + i, left).StorePartial(to + i, left);
}

// Rows [begin, end) of the panel are the slice's rows from `first` on.
template <typename T>
void WidenB(const LoraMatrix& matrix, int64_t first, int64_t begin, int64_t end,
            PanelSlice& slice) {
  slice.rank = matrix.rank;
  slice.scale = matrix.scale;
  for (int32_t j = 0; j < matrix.rank; ++j) {
    std::memset(slice.b[j], 0, sizeof(slice.b[j]));
    WidenRow(static_cast<const T*>(matrix.b_rows[j]) + first, end - begin, slice.b[j] + begin);
  }
}

template <typename T>
void WidenA(const LoraMatrix& matrix, int64_t k_begin, int64_t n, PanelSlice& slice) {
  for (int32_t j = 0; j < matrix.rank; ++j) {
    slice.a[j][n % kBlock] = 0.0f;  // the second half of a step may lie past k
    WidenRow(static_cast<const T*>(matrix.a_rows[j]) + k_begin, n, slice.a[j]);
  }
}

// sum[v] = B A of the panel's rows and column i of the block.
inline void SumColumn(const PanelSlice& slice, int64_t i, Vec (&sum)[kVecs]) {
  for (Vec& v : sum) v = Vec::Zero();
  for (int32_t j = 0; j < slice.rank; ++j) {
    const Vec a = Vec::Set(slice.a[j][i]);
    for (int v = 0; v < kVecs; ++v) sum[v] = Fma(Vec::Load(slice.b[j] + v * kLanes), a, sum[v]);
  }
}

// One step of the panel, 128 bytes at `w`, is column i of the block, or i and i + 1.
inline void AddStep(const PanelSlice& slice, int64_t i, float* w) {
  Vec sum[kVecs];
  SumColumn(slice, i, sum);
  const Vec scale = Vec::Set(slice.scale);
  for (int v = 0; v < kVecs; ++v, w += kLanes) Fma(scale, sum[v], Vec::Load(w)).Store(w);
}

inline void AddStep(const PanelSlice& slice, int64_t i, Bfloat16* w) {
  Vec even[kVecs], odd[kVecs];
  SumColumn(slice, i, even);
  SumColumn(slice, i + 1, odd);
  const Vec scale = Vec::Set(slice.scale);
  for (int v = 0; v < kVecs; ++v, w += 2 * kLanes) {
    Vec w_even, w_odd;
    WidenPairs(w, w_even, w_odd);
    w_even = Fma(scale, even[v], w_even);
    w_odd = Fma(scale, odd[v], w_odd);
    InterleavePairs(w_even, w_odd);
    w_even.Store(w);
    w_odd.Store(w + kLanes);
  }
}

template <typename T>
void AddSlice(const LoraMergeWork& work, const LoraMatrix& matrix, PanelSlice& slice, char* panel) {
  constexpr int64_t kStepK = 4 / static_cast<int64_t>(sizeof(T));
  for (int64_t k_begin = 0; k_begin < work.k; k_begin += kBlock) {
    const int64_t n = work.k - k_begin < kBlock ? work.k - k_begin : kBlock;
    WidenA<T>(matrix, k_begin, n, slice);
    for (int64_t i = 0; i < n; i += kStepK, panel += kGemmStepBytes) {
      AddStep(slice, i, reinterpret_cast<T*>(panel));
    }
  }
}

template <typename T>
void MergePanels(const LoraMergeWork& work, int64_t panel_begin, int64_t panel_end) {
  static thread_local PanelSlice slice;
  constexpr int64_t kStepK = 4 / static_cast<int64_t>(sizeof(T));
  const int64_t panel_bytes = (work.k + kStepK - 1) / kStepK * kGemmStepBytes;
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    char* const panel = static_cast<char*>(work.merged) + p * panel_bytes;
    std::memcpy(panel, static_cast<const char*>(work.base) + p * panel_bytes,
                static_cast<size_t>(panel_bytes));
    const int64_t row = p * kGemmPanel;
    int64_t slice_begin = 0;
    for (int32_t s = 0; s < work.num_slices; slice_begin += work.slice_n[s], ++s) {
      const int64_t slice_end = slice_begin + work.slice_n[s];
      const int64_t begin = slice_begin > row ? slice_begin : row;
      const int64_t end = slice_end < row + kGemmPanel ? slice_end : row + kGemmPanel;
      if (begin >= end || work.matrices[s].rank == 0) continue;
      WidenB<T>(work.matrices[s], begin - slice_begin, begin - row, end - row, slice);
      AddSlice<T>(work, work.matrices[s], slice, panel);
    }
  }
}

}  // namespace

// Shared out as Gemm shares its panels, so that each thread's memory is near it.
void LoraMerge(const LoraMergeWork& work, Stream& stream) {
  const int64_t num_panels = (work.n + kGemmPanel - 1) / kGemmPanel;
  stream.cpu_threads->ParallelFor(num_panels, 1, [&work](int64_t begin, int64_t end) {
    if (work.dtype == DType::kF32) {
      MergePanels<float>(work, begin, end);
    } else {
      MergePanels<Bfloat16>(work, begin, end);
    }
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
