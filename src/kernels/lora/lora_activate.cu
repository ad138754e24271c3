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

// Eight columns of a row of y.
struct Run {
  float values[8];

  __device__ __forceinline__ Run(const LoraArgs& lora, int row, int slice, int column) {
    LoadRun<true>(lora.y + row * lora.y_stride + lora.slice_begin[slice] + column, 8, values);
  }
  __device__ __forceinline__ void Add(const float (&delta)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] += delta[i];
  }
};

template <bool kIsBf16>
__device__ __forceinline__ void StoreActivated(const LoraArgs& lora, int row, int column,
                                               const float (&gate)[8], const float (&up)[8]) {
  using T = std::conditional_t<kIsBf16, Bfloat16, Float16>;
  float values[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) values[i] = SiluTimes(gate[i], up[i]);
  StoreRun<true>(values, 8, static_cast<T*>(lora.activated) + row * lora.slice_n[kGate] + column);
}

// Rows [begin, end) have no LoRA. Called by the multiplying threads.
template <bool kIsBf16>
__device__ __forceinline__ void ActivateRows(const LoraArgs& lora, int begin, int end, int column,
                                             int column_end) {
  constexpr int kRuns = kChunk / 8;  // of a row
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < (end - begin) * kRuns; i += kMultiplyThreads) {
    const int at = column + i % kRuns * 8;
    if (at >= column_end) continue;
    const int row = begin + i / kRuns;
    StoreActivated<kIsBf16>(lora, row, at, Run(lora, row, kGate, at).values,
                            Run(lora, row, kUp, at).values);
  }
}

// Whether there are rows before the block's segment, or behind the last one.
__device__ __forceinline__ bool HasOtherRows(const LoraArgs& lora) {
  const int idx = static_cast<int>(blockIdx.y);
  const int begin = idx == 0 ? 0 : lora.segments[idx - 1].row_end;
  return begin < lora.segments[idx].row_begin ||
         (idx + 1 == lora.num_segments && lora.segments[idx].row_end < lora.num_rows);
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

// A thread's elements of the gate, in shared memory until up's are there: it has two rows of eight
// columns in each of its units.
constexpr int kUnits = kChunk / kUnit / kWarps;
constexpr int kGateBytes = kUnits * 2 * 8 * kMultiplyThreads * 4;

// Walks over the elements of y that a thread multiplies in a pass over [row, row_end) x [column,
// column_end): function(unit, i, row, column).
template <typename Function>
__device__ __forceinline__ void ForEachRun(int row, int row_end, int column, int column_end,
                                           const Function& function) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int unit = 0; unit < kUnits; ++unit) {
    const int at =
        column + (static_cast<int>(threadIdx.x) / 32 + unit * kWarps) * kUnit + lane / 4 * 8;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int of = row + lane % 4 * 2 + i;
      if (of < row_end && at < column_end) function(unit, i, of, at);
    }
  }
}

template <bool kIsBf16>
__global__ void __launch_bounds__(kThreads, BlocksBound(4, 2))
    ExpandActivateKernel(const __grid_constant__ KernelArgs args) {
  extern __shared__ __align__(128) char shared[];
  LetNextStart();
  const LoraArgs& lora = args.lora;
  char* const barriers = shared + args.depth * kTileRanks * RowBytesOfB(kChunk);
  char* const tables = barriers + Ring::kBarrierBytes;
  Ring ring(shared, barriers, args.depth, RowBytesOfB(kChunk));
  const auto row_split = static_cast<int>(blockIdx.z);
  const int column = static_cast<int>(blockIdx.x) * kChunk;
  const int column_end = min(column + kChunk, static_cast<int>(lora.slice_n[kGate]));
  const BlockRows rows(lora, row_split, kTileRows);
  const bool has_work = rows.begin < rows.end;
  if (!has_work && !IsFirstBlock() && (row_split > 0 || !HasOtherRows(lora))) return;
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
  using HalfExpander = Expander<kIsBf16, NoStore>;
  char* const h = tables + 2 * RowTable::Bytes(lora.h_stride);
  HalfExpander gates(args, ring, reinterpret_cast<float*>(h));
  HalfExpander ups(args, ring, reinterpret_cast<float*>(h + HBytes(lora.h_stride)));
  // [unit][row][half][thread]
  auto* const kept = reinterpret_cast<float4*>(h + 2 * HBytes(lora.h_stride)) + threadIdx.x;
  for (int row = rows.begin; row < rows.end; row += args.row_splits * kTileRows) {
    if (row > rows.begin) SyncThreads<kMultiplyThreads, 1>();
    gates.SumH(row, rows.end, kGate, gate);
    ups.SumH(row, rows.end, kUp, up);
    SyncThreads<kMultiplyThreads, 1>();
    {
      typename HalfExpander::Sums sum = {};
      gates.Multiply(row, rows.end, gate.rank, sum);
      ForEachRun(row, rows.end, column, column_end, [&](int unit, int i, int of, int at) {
        Run run(lora, of, kGate, at);
        float delta[8];
        gates.DeltaOf(sum[unit], i, delta);
        if (gate.rank > 0) run.Add(delta);
        const float* v = run.values;
        kept[(unit * 4 + i * 2) * kMultiplyThreads] = {v[0], v[1], v[2], v[3]};
        kept[(unit * 4 + i * 2 + 1) * kMultiplyThreads] = {v[4], v[5], v[6], v[7]};
      });
    }
    typename HalfExpander::Sums sum = {};
    ups.Multiply(row, rows.end, up.rank, sum);
    ForEachRun(row, rows.end, column, column_end, [&](int unit, int i, int of, int at) {
      Run run(lora, of, kUp, at);
      float delta[8];
      ups.DeltaOf(sum[unit], i, delta);
      if (up.rank > 0) run.Add(delta);
      const float4 low = kept[(unit * 4 + i * 2) * kMultiplyThreads];
      const float4 high = kept[(unit * 4 + i * 2 + 1) * kMultiplyThreads];
      StoreActivated<kIsBf16>(
          lora, of, at, {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}, run.values);
    });
  }
}

}  // namespace

int ExpandActivateSharedBytes(int depth, int64_t rank_max) {
  return depth * kTileRanks * RowBytesOfB(kChunk) + Ring::kBarrierBytes +
         2 * (RowTable::Bytes(rank_max) + HBytes(rank_max)) + kGateBytes;
}

void LaunchExpandActivate(const KernelArgs& args, const Launch& launch) {
  if (args.lora.dtype == DType::kBF16) return LaunchOf<ExpandActivateKernel<true>>(args, launch);
  LaunchOf<ExpandActivateKernel<false>>(args, launch);
}

}  // namespace graft::lora
