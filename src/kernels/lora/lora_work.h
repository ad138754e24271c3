// How one LoRA launch is shared by threads, with no list built and no lock taken: the work is laid
// out in one line by cost and cut into equal lengths. Where the cuts fall never changes what a sum
// is. Include from lora_cpu.cc only.
#pragma once

#include <cstdint>

#include "kernels/common/cpu_isa.h"
#include "kernels/common/unroll.h"
#include "kernels/lora/lora.h"

namespace graft::GRAFT_CPU_NAMESPACE {

// One matrix for rows [row_begin, row_end) of one segment: ranks (shrink) or columns of the slice
// (expand) [begin, end).
struct LoraItem {
  const LoraMatrix* matrix = nullptr;
  int32_t slice = 0;
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int64_t begin = 0;
  int64_t end = 0;

  int32_t rows() const { return row_end - row_begin; }
};

// A row of A or B on its way from memory costs as much as multiplying it with so many rows of x.
inline constexpr int64_t kLoraMemoryRows = 12;
// Work of fewer bytes than this is done before another thread is awake.
inline constexpr int64_t kLoraSerialBytes = 48 << 10;
// Expand's cuts fall where Gemm's do when all slices weigh the same (gemm_layout.h, kGemmPanel), so
// that a thread finds the y it has just written in its own cache.
inline constexpr int64_t kLoraColumnsGrain = 32;

inline const LoraMatrix& MatrixOf(const LoraArgs& args, const LoraSegment& segment, int32_t slice) {
  return args.matrices[segment.adapter_slot * args.matrices_stride + slice];
}

// Calls function(item with all ranks) for every matrix that has work, until it returns false.
template <typename Function>
void WalkLora(const LoraArgs& args, const Function& function) {
  for (int32_t s = 0; s < args.num_segments; ++s) {
    const LoraSegment& segment = args.segments[s];
    if (segment.row_begin == segment.row_end) continue;
    for (int32_t slice = 0; slice < args.num_slices; ++slice) {
      const LoraMatrix& matrix = MatrixOf(args, segment, slice);
      if (matrix.rank == 0) continue;
      const LoraItem item{&matrix, slice, segment.row_begin, segment.row_end, 0, matrix.rank};
      if (!function(item)) return;
    }
  }
}

// The tables of pointers come from memory too, each before the first byte behind it can: ask for
// all of them at once.
inline void FetchPointers(const void* const* rows, int32_t rank) {
  for (int32_t i = 0; i < rank; i += 8) __builtin_prefetch(rows + i, 0, 3);
}

// Hands each item to compute(item, next). `next` is the item that follows it, null at the end: its
// bytes can be fetched ahead.
template <typename Compute>
class ItemQueue {
 public:
  explicit ItemQueue(const Compute& compute) : compute_(compute) {}
  void Push(const LoraItem& item) {
    if (pending_.matrix != nullptr) compute_(pending_, &item);
    pending_ = item;
  }
  void Finish() {
    if (pending_.matrix != nullptr) compute_(pending_, nullptr);
  }

 private:
  const Compute& compute_;
  LoraItem pending_;
};

// ---- Shrink: each matrix is cut along its longer side. Ranks divide A, which each thread then
// fetches once; rows divide x. ----

// The pieces that an item with all ranks may be cut into.
struct ShrinkPieces {
  ShrinkPieces(const LoraArgs& args, const LoraItem& whole, int32_t rows_max)
      : cut_rows(whole.rows() > whole.end),
        count(cut_rows ? (whole.rows() + rows_max - 1) / rows_max : whole.end),
        cost(args.k * DTypeBytes(args.dtype) * whole.end * (whole.rows() + kLoraMemoryRows) /
             count) {}

  LoraItem Range(const LoraItem& whole, int64_t begin, int64_t end) const {
    LoraItem item = whole;
    if (cut_rows) {
      item.row_begin = whole.row_begin + static_cast<int32_t>(whole.rows() * begin / count);
      item.row_end = whole.row_begin + static_cast<int32_t>(whole.rows() * end / count);
    } else {
      item.begin = begin;
      item.end = end;
    }
    return item;
  }

  bool cut_rows;
  int64_t count;
  int64_t cost;  // of one
};

template <typename Compute>
void RunShrinkShare(const LoraArgs& args, int32_t rows_max, int64_t begin, int64_t end,
                    const Compute& compute) {
  WalkLora(args, [](const LoraItem& item) {
    FetchPointers(item.matrix->a_rows, item.matrix->rank);
    FetchPointers(item.matrix->b_rows, item.matrix->rank);  // for the expand that follows
    return true;
  });
  ItemQueue<Compute> queue(compute);
  int64_t position = 0;
  WalkLora(args, [&](const LoraItem& whole) {
    if (position >= end) return false;
    const ShrinkPieces pieces(args, whole, rows_max);
    // A piece belongs to the share that its first byte of cost lies in.
    const auto piece_at = [&](int64_t border) {
      if (border <= position) return int64_t{0};
      const int64_t piece = (border - position + pieces.cost - 1) / pieces.cost;
      return piece < pieces.count ? piece : pieces.count;
    };
    const int64_t first = piece_at(begin);
    const int64_t last = piece_at(end);
    position += pieces.count * pieces.cost;
    if (first < last) queue.Push(pieces.Range(whole, first, last));
    return true;
  });
  queue.Finish();
}

// Calls compute(item, next) for all of a shrink's items, on the stream's threads.
template <typename Compute>
void ForEachShrinkItem(const LoraArgs& args, int32_t rows_max, Stream& stream,
                       const Compute& compute) {
  int64_t total = 0;
  WalkLora(args, [&](const LoraItem& whole) {
    const ShrinkPieces pieces(args, whole, rows_max);
    total += pieces.count * pieces.cost;
    return true;
  });
  const int num_threads = stream.cpu_threads->num_threads();
  if (num_threads == 1 || total < kLoraSerialBytes * kLoraMemoryRows) {
    RunShrinkShare(args, rows_max, 0, total, compute);
    return;
  }
  stream.cpu_threads->Run([&](int worker_idx) {
    RunShrinkShare(args, rows_max, total * worker_idx / num_threads,
                   total * (worker_idx + 1) / num_threads, compute);
  });
}

// ---- Expand: each thread takes a stretch of y's columns through all segments, which divides both
// B and y. ----

// What a column of each slice costs, over all segments.
struct ExpandCosts {
  explicit ExpandCosts(const LoraArgs& args) {
    WalkLora(args, [&](const LoraItem& item) {
      column[item.slice] += item.matrix->rank * (item.rows() + kLoraMemoryRows);
      return true;
    });
    for (int32_t s = 0; s < args.num_slices; ++s) total += column[s] * args.slice_n[s];
  }

  int64_t column[kLoraSlicesMax] = {};
  int64_t total = 0;
};

template <typename Compute>
void RunExpandShare(const LoraArgs& args, const ExpandCosts& costs, int64_t begin, int64_t end,
                    const Compute& compute) {
  int64_t first[kLoraSlicesMax], last[kLoraSlicesMax];
  int64_t position = 0;
  for (int32_t s = 0; s < args.num_slices; ++s) {
    const auto column_at = [&](int64_t border) {
      if (border <= position || costs.column[s] == 0) return int64_t{0};
      const int64_t column = (border - position) / costs.column[s];
      if (column >= args.slice_n[s]) return args.slice_n[s];
      return column / kLoraColumnsGrain * kLoraColumnsGrain;
    };
    first[s] = column_at(begin);
    last[s] = column_at(end);
    position += costs.column[s] * args.slice_n[s];
  }
  ItemQueue<Compute> queue(compute);
  WalkLora(args, [&](LoraItem item) {
    item.begin = first[item.slice];
    item.end = last[item.slice];
    if (item.begin < item.end) queue.Push(item);
    return true;
  });
  queue.Finish();
}

// Calls compute(item, next) for all of an expand's items, on the stream's threads.
template <typename Compute>
void ForEachExpandItem(const LoraArgs& args, Stream& stream, const Compute& compute) {
  const ExpandCosts costs(args);
  const int num_threads = stream.cpu_threads->num_threads();
  const int64_t serial = kLoraSerialBytes * kLoraMemoryRows / DTypeBytes(args.dtype);
  if (num_threads == 1 || costs.total < serial) {
    RunExpandShare(args, costs, 0, costs.total, compute);
    return;
  }
  stream.cpu_threads->Run([&](int worker_idx) {
    RunExpandShare(args, costs, costs.total * worker_idx / num_threads,
                   costs.total * (worker_idx + 1) / num_threads, compute);
  });
}

// ---- Both ----

// Calls function(first row, number of rows as Index) for each register tile of the item's rows;
// tiles share the rows evenly.
template <int kRowsMax, typename Function>
void ForEachRowTile(const LoraItem& item, const Function& function) {
  const int32_t num_tiles = (item.rows() + kRowsMax - 1) / kRowsMax;
  for (int32_t tile = 0; tile < num_tiles; ++tile) {
    const int32_t begin = item.rows() * tile / num_tiles;
    const int32_t rows = item.rows() * (tile + 1) / num_tiles - begin;
    Unroll<kRowsMax>([&](auto index) {
      constexpr int kRows = decltype(index)::value + 1;
      if (rows == kRows) function(item.row_begin + begin, Index<kRows>{});
    });
  }
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
