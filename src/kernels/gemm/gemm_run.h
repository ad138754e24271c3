// GemmRun: how the products of a GEMM on the CPU are shared out to threads, whatever multiplies
// them: rows of x are copied in tiles, and each thread streams its panels of W front to back.
// Include from files that are compiled per instruction set (kernels/common/cpu_isa.h).
#pragma once

#include "kernels/common/simd.h"
#include "kernels/common/unroll.h"
#include "kernels/gemm/gemm_layout.h"

namespace graft::GRAFT_CPU_NAMESPACE {

inline constexpr int kVecs = static_cast<int>(kGemmPanel) / Vec::kLanes;

template <int kRows>
struct Tile {
  Vec sum[kRows][kVecs];
};

// Calls function(v) for each vector of a panel. Lanes of one float are left to the vectoriser.
template <typename Function>
__attribute__((always_inline)) inline void ForEachVec(const Function& function) {
#if defined(GRAFT_ISA_AVX512) || defined(GRAFT_ISA_AVX2)
  Unroll<kVecs>(function);
#else
  for (int v = 0; v < kVecs; ++v) function(v);
#endif
}

// What the memory system should fetch while a tile is computed: two lines `step` / 2 apart, `step`
// bytes further with every step of k. step 0 re-reads a line at hand, which costs nothing.
struct Prefetch {
  const char* begin;
  int64_t step;
};

// What the epilogue makes of the sums of a row, but LoRA, for the panel's columns that exist.
inline void StoreRow(const Vec* sum, const GemmArgs& args, int64_t row, int64_t column, int64_t n) {
  const GemmEpilogue& ends = args.epilogue;
  float* y = args.y + row * args.y_stride + column;
  for (int v = 0; v < kVecs; ++v) {
    const int64_t first = int64_t{v} * Vec::kLanes;
    const int64_t rest = n - column - first;
    if (rest <= 0) return;
    const int lanes = rest < Vec::kLanes ? static_cast<int>(rest) : Vec::kLanes;
    Vec value = sum[v];
    if (ends.bias != nullptr) value = value + Vec::LoadPartial(ends.bias + column + first, lanes);
    if (ends.accumulate) {
      value = Fma(Vec::Set(ends.scale), value, Vec::LoadPartial(y + first, lanes));
    }
    value.StorePartial(y + first, lanes);
  }
}

// Math multiplies. It has
//   Source: what x is; kRowsMax: rows of a tile; kXRow: bytes of a row's block in the copy of x;
//   BlockK(args): values of k in a block;
//   Copy(args, x, begin, k, out): values [begin, begin + k) of a row x, which are a block or the
//   rest of one, and zeros behind them; Compute<kRows>(args, x, w, prefetch, tile): the sums of a
//   tile of rows and a panel.
template <typename Math>
class GemmRun {
 public:
  explicit GemmRun(const GemmCpuArgs& args)
      : args_(args),
        block_k_(Math::BlockK(args)),
        num_blocks_((args.k + block_k_ - 1) / block_k_),
        num_tiles_((args.gemm.m + Math::kRowsMax - 1) / Math::kRowsMax) {}

  void Run(Stream& stream) {
    const int num_threads = stream.cpu_threads->num_threads();
    const int64_t num_panels = (args_.n + kGemmPanel - 1) / kGemmPanel;
    const int64_t weight_bytes = num_panels * args_.panel_bytes;
    if (num_threads == 1 || weight_bytes * args_.gemm.m <= kSerialBytesMax) {
      CopyX(0, num_tiles_, args_.scratch);
      ComputePanels(0, num_panels, args_.scratch);
      return;
    }
    if (args_.gemm.m > kGemmOwnCopyRowsMax) {
      stream.cpu_threads->ParallelFor(
          num_tiles_, 1, [&](int64_t begin, int64_t end) { CopyX(begin, end, args_.scratch); });
      stream.cpu_threads->ParallelFor(num_panels, 1, [&](int64_t begin, int64_t end) {
        ComputePanels(begin, end, args_.scratch);
      });
      return;
    }
    // A few rows: a copy per thread costs less than waiting for a common one.
    stream.cpu_threads->Run([&](int worker_idx) {
      const int64_t begin = num_panels * worker_idx / num_threads;
      const int64_t end = num_panels * (worker_idx + 1) / num_threads;
      if (begin == end) return;
      char* scratch = args_.scratch + worker_idx * args_.gemm.m * num_blocks_ * Math::kXRow;
      CopyX(0, num_tiles_, scratch);
      ComputePanels(begin, end, scratch);
    });
  }

 private:
  // Below this product of weight bytes and rows, waking the other threads costs more than they
  // save.
  static constexpr int64_t kSerialBytesMax = 128 << 10;

  // Tiles share the rows evenly: 16 rows are 8 + 8, not 14 + 2.
  int64_t TileBegin(int64_t tile) const { return args_.gemm.m * tile / num_tiles_; }

  // Copies the rows of tiles [begin, end) into blocks: [tile][block][row][kXRow bytes].
  void CopyX(int64_t begin, int64_t end, char* scratch) const {
    using Source = typename Math::Source;
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t row_begin = TileBegin(tile);
      const int64_t rows = TileBegin(tile + 1) - row_begin;
      char* out = scratch + row_begin * num_blocks_ * Math::kXRow;
      for (int64_t block = 0; block < num_blocks_; ++block) {
        const int64_t k_begin = block * block_k_;
        const int64_t k = args_.k - k_begin < block_k_ ? args_.k - k_begin : block_k_;
        for (int64_t row = 0; row < rows; ++row, out += Math::kXRow) {
          const Source* const x =
              static_cast<const Source*>(args_.gemm.x) + (row_begin + row) * args_.gemm.x_stride;
          Math::Copy(args_, x, k_begin, k, out);
        }
      }
    }
  }

  void ComputePanels(int64_t begin, int64_t end, const char* scratch) const {
    const int64_t panel_bytes = args_.panel_bytes;
    for (int64_t panel = begin; panel < end; ++panel) {
      const char* w = args_.panels + panel * panel_bytes;
      for (int64_t tile = 0; tile < num_tiles_; ++tile) {
        Prefetch prefetch{w, 0};
        if (num_tiles_ == 1) {
          prefetch = {w + kPrefetchBytes, kGemmStepBytes};
        } else if (tile < 2 && panel + 1 < end) {
          // The first two tiles fetch half of the next panel each.
          prefetch = {w + panel_bytes + tile * panel_bytes / 2, kGemmStepBytes / 2};
        }
        ComputeRows(scratch, w, tile, panel * kGemmPanel, prefetch);
      }
    }
  }

  void ComputeRows(const char* scratch, const char* w, int64_t tile_idx, int64_t column,
                   Prefetch prefetch) const {
    const int64_t row_begin = TileBegin(tile_idx);
    const int64_t rows = TileBegin(tile_idx + 1) - row_begin;
    const char* x = scratch + row_begin * num_blocks_ * Math::kXRow;
    Unroll<Math::kRowsMax>([&](auto index) {
      constexpr int kRows = decltype(index)::value + 1;
      if (rows != kRows) return;
      Tile<kRows> tile;
      Math::template Compute<kRows>(args_, x, w, prefetch, tile);
      for (int r = 0; r < kRows; ++r) {
        StoreRow(tile.sum[r], args_.gemm, row_begin + r, column, args_.n);
      }
    });
  }

  // Far enough ahead to hide the way from memory at full bandwidth (measured: 4 KiB is too near).
  static constexpr int64_t kPrefetchBytes = 12288;

  const GemmCpuArgs args_;
  const int64_t block_k_;
  const int64_t num_blocks_;
  const int64_t num_tiles_;
};

}  // namespace graft::GRAFT_CPU_NAMESPACE
