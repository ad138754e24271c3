// LoRA's expand of gate and up, and SwiGLU of what it makes of y, in bf16 and fp16: y is read once
// and not written, where an expand and a GatedActivation would read it twice and write it. A block
// takes the same columns of both halves. The bits are those of the two, one after the other.
#include <type_traits>

#include "kernels/common/cuda_vector.cuh"
#include "kernels/gated_activation/gated_activation_cuda.cuh"
#include "kernels/lora/lora_expand.cuh"

namespace graft::lora {
namespace {

constexpr int kGate = 0;
constexpr int kUp = 1;

// Eight columns of a row.
struct Columns {
  float gate[8];
  float up[8];

  __device__ __forceinline__ Columns(const LoraArgs& lora, int row, int column) {
    const float* const y = lora.y + row * lora.y_stride + column;
    LoadRun<true>(y, 8, gate);
    LoadRun<true>(y + lora.slice_begin[kUp], 8, up);
  }
  static __device__ __forceinline__ void Add(const float (&delta)[8], float (&to)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] += delta[i];
  }
  template <bool kIsBf16>
  __device__ __forceinline__ void Activate(const LoraArgs& lora, int row, int column) const {
    using T = std::conditional_t<kIsBf16, Bfloat16, Float16>;
    float values[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = SiluTimes(gate[i], up[i]);
    StoreRun<true>(values, 8, static_cast<T*>(lora.activated) + row * lora.slice_n[kGate] + column);
  }
};

// Rows [begin, end) have no LoRA. Called by the multiplying threads.
template <bool kIsBf16>
__device__ __forceinline__ void ActivateRows(const LoraArgs& lora, int begin, int end, int column,
                                             int column_end) {
  constexpr int kRuns = kNarrow / 8;  // of a row
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < (end - begin) * kRuns; i += kMultiplyThreads) {
    const int at = column + i % kRuns * 8;
    if (at >= column_end) continue;
    const int row = begin + i / kRuns;
    Columns(lora, row, at).Activate<kIsBf16>(lora, row, at);
  }
}

// Those before the block's segment, and those behind the last one.
template <bool kIsBf16>
__device__ __forceinline__ void ActivateOtherRows(const LoraArgs& lora, int column,
                                                  int column_end) {
  const int idx = static_cast<int>(blockIdx.y);
  const int begin = idx == 0 ? 0 : lora.segments[idx - 1].row_end;
  ActivateRows<kIsBf16>(lora, begin, lora.segments[idx].row_begin, column, column_end);
  if (idx + 1 < lora.num_segments) return;
  ActivateRows<kIsBf16>(lora, lora.segments[idx].row_end, lora.num_rows, column, column_end);
}

__host__ __device__ constexpr int HBytes(int64_t rank_max) {
  return kTileRows * (HStride(rank_max) + 2) * 4;
}

// Expander's stores are not used.
struct NoStore {};

template <bool kIsBf16>
__global__ void __launch_bounds__(kThreads, 4)
    ExpandActivateKernel(const __grid_constant__ KernelArgs args) {
  extern __shared__ __align__(128) char shared[];
  LetNextStart();
  const LoraArgs& lora = args.lora;
  char* const barriers = shared + args.depth * kTileRanks * RowBytesOfB(kNarrow);
  char* const tables = barriers + Ring::kBarrierBytes;
  Ring ring(shared, barriers, args.depth, RowBytesOfB(kNarrow));
  const auto row_split = static_cast<int>(blockIdx.z);
  const int column = static_cast<int>(blockIdx.x) * kNarrow;
  const int column_end = min(column + kNarrow, static_cast<int>(lora.slice_n[kGate]));
  const BlockRows rows(lora, row_split, kTileRows);
  const bool has_work = rows.begin < rows.end;
  if (threadIdx.x == 0) ring.Init();
  __syncthreads();
  LoraMatrix gate, up;
  if (has_work) {
    gate = MatrixOf(lora, rows.adapter_slot, kGate);
    up = MatrixOf(lora, rows.adapter_slot, kUp);
  }
  if (threadIdx.x >= kMultiplyThreads) {
    if (!has_work) return;
    const RowTable gate_table(tables, gate.b_rows, gate.rank);
    const RowTable up_table(tables + RowTable::Bytes(lora.h_stride), up.b_rows, up.rank);
    for (int row = rows.begin; row < rows.end; row += args.row_splits * kTileRows) {
      FeedExpand(args, gate_table, gate.rank, column, column_end - column, ring);
      FeedExpand(args, up_table, up.rank, column, column_end - column, ring);
    }
    return;
  }
  WaitForPrevious();  // also without work: the next kernel relies on it
  if (row_split == 0) ActivateOtherRows<kIsBf16>(lora, column, column_end);
  using HalfExpander = Expander<kIsBf16, NoStore, kNarrow>;
  char* const h = tables + 2 * RowTable::Bytes(lora.h_stride);
  HalfExpander gates(args, ring, reinterpret_cast<float*>(h));
  HalfExpander ups(args, ring, reinterpret_cast<float*>(h + HBytes(lora.h_stride)));
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int at = column + static_cast<int>(threadIdx.x) / 32 * kUnit + lane / 4 * 8;
  for (int row = rows.begin; row < rows.end; row += args.row_splits * kTileRows) {
    if (row > rows.begin) SyncThreads<kMultiplyThreads>();
    gates.SumH(row, rows.end, kGate, gate);
    ups.SumH(row, rows.end, kUp, up);
    SyncThreads<kMultiplyThreads>();
    typename HalfExpander::Sums gate_sum = {}, up_sum = {};
    static_assert(HalfExpander::kUnitsOfWarp == 1);
    gates.Multiply(row, rows.end, gate.rank, gate_sum);
    ups.Multiply(row, rows.end, up.rank, up_sum);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int in_pass = lane % 4 * 2 + i;
      if (row + in_pass >= rows.end || at >= column_end) break;
      Columns columns(lora, row + in_pass, at);
      float delta[8];
      gates.DeltaOf(gate_sum[0], i, delta);
      if (gate.rank > 0) Columns::Add(delta, columns.gate);
      ups.DeltaOf(up_sum[0], i, delta);
      if (up.rank > 0) Columns::Add(delta, columns.up);
      columns.template Activate<kIsBf16>(lora, row + in_pass, at);
    }
  }
}

}  // namespace

int ExpandActivateSharedBytes(int depth, int64_t rank_max) {
  return depth * kTileRanks * RowBytesOfB(kNarrow) + Ring::kBarrierBytes +
         2 * (RowTable::Bytes(rank_max) + HBytes(rank_max));
}

void LaunchExpandActivate(const KernelArgs& args, const Launch& launch) {
  if (args.lora.dtype == DType::kBF16) return LaunchOf<ExpandActivateKernel<true>>(args, launch);
  LaunchOf<ExpandActivateKernel<false>>(args, launch);
}

}  // namespace graft::lora
