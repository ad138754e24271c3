// How one LoRA launch is shared by threads: a rectangle of rows times units (ranks or columns) per
// segment and slice, all laid out in one line by cost and cut into equal lengths, with no list
// built and no lock taken. Where the cuts fall never changes what a unit computes. Include from
// lora_cpu.cc only.
#pragma once

#include <cstdint>

#include "kernels/common/cpu_isa.h"
#include "kernels/common/unroll.h"
#include "kernels/lora/lora.h"

namespace graft::GRAFT_CPU_NAMESPACE {

// Units [begin, end) of one matrix for rows [row_begin, row_end) of one segment.
struct LoraItem {
  const LoraMatrix* matrix = nullptr;
  int32_t slice = 0;
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int64_t begin = 0;
  int64_t end = 0;

  int32_t rows() const { return row_end - row_begin; }
};

// One kind of launch.
struct LoraPlan {
  int64_t unit_bytes_per_rank;  // of A or B; shrink's unit is a rank
  int64_t columns_per_unit;     // 0: units are ranks
  int32_t rows_max;             // of a register tile
};

// A unit's way from memory costs as much as computing it for so many rows.
inline constexpr int64_t kLoraMemoryRows = 12;
// Work of fewer bytes than this is done before another thread is awake.
inline constexpr int64_t kLoraSerialBytes = 48 << 10;

// One segment's matrix of one slice, and the pieces it may be cut into. Expand cuts columns, which
// divides both B and y. Shrink cuts the longer side: ranks divide A, which each thread then fetches
// once; rows divide x.
struct LoraRectangle {
  LoraItem whole;
  bool cut_rows = false;
  int64_t num_pieces = 0;
  int64_t piece_cost = 0;

  LoraItem Pieces(int64_t begin, int64_t end) const {
    LoraItem item = whole;
    if (cut_rows) {
      item.row_begin = whole.row_begin + static_cast<int32_t>(whole.rows() * begin / num_pieces);
      item.row_end = whole.row_begin + static_cast<int32_t>(whole.rows() * end / num_pieces);
    } else {
      item.begin = begin;
      item.end = end;
    }
    return item;
  }
};

inline LoraRectangle RectangleOf(const LoraArgs& args, const LoraPlan& plan,
                                 const LoraSegment& segment, int32_t slice) {
  const LoraMatrix& matrix = args.matrices[segment.adapter_slot * args.matrices_stride + slice];
  LoraRectangle rectangle;
  LoraItem& whole = rectangle.whole;
  whole = {&matrix, slice, segment.row_begin, segment.row_end, 0, 0};
  if (matrix.rank == 0 || whole.rows() == 0) return rectangle;
  int64_t unit_bytes = plan.unit_bytes_per_rank;
  if (plan.columns_per_unit == 0) {
    whole.end = matrix.rank;
    rectangle.cut_rows = whole.rows() > matrix.rank;
  } else {
    whole.end = (args.slice_n[slice] + plan.columns_per_unit - 1) / plan.columns_per_unit;
    unit_bytes *= matrix.rank;
  }
  const int64_t cost = unit_bytes * whole.end * (whole.rows() + kLoraMemoryRows);
  rectangle.num_pieces =
      rectangle.cut_rows ? (whole.rows() + plan.rows_max - 1) / plan.rows_max : whole.end;
  rectangle.piece_cost = cost / rectangle.num_pieces;
  return rectangle;
}

// Calls function(rectangle) for each that holds work, until it returns false.
template <typename Function>
void WalkLora(const LoraArgs& args, const LoraPlan& plan, const Function& function) {
  for (int32_t s = 0; s < args.num_segments; ++s) {
    for (int32_t slice = 0; slice < args.num_slices; ++slice) {
      const LoraRectangle rectangle = RectangleOf(args, plan, args.segments[s], slice);
      if (rectangle.num_pieces > 0 && !function(rectangle)) return;
    }
  }
}

// The items of the share [begin, end) of the line, each with the one that follows it (null after
// the last) so that its bytes can be fetched ahead.
template <typename Compute>
void RunLoraShare(const LoraArgs& args, const LoraPlan& plan, int64_t begin, int64_t end,
                  const Compute& compute) {
  LoraItem pending;
  int64_t position = 0;
  WalkLora(args, plan, [&](const LoraRectangle& rectangle) {
    if (position >= end) return false;
    // A piece belongs to the share that its first byte of cost lies in.
    const auto piece_at = [&](int64_t border) {
      if (border <= position) return int64_t{0};
      const int64_t piece = (border - position + rectangle.piece_cost - 1) / rectangle.piece_cost;
      return piece < rectangle.num_pieces ? piece : rectangle.num_pieces;
    };
    const int64_t first = piece_at(begin);
    const int64_t last = piece_at(end);
    position += rectangle.num_pieces * rectangle.piece_cost;
    if (first == last) return true;
    const LoraItem item = rectangle.Pieces(first, last);
    if (pending.matrix != nullptr) compute(pending, &item);
    pending = item;
    return true;
  });
  if (pending.matrix != nullptr) compute(pending, nullptr);
}

// Calls compute(item, next) for all items of the launch, on the stream's threads.
template <typename Compute>
void ForEachLoraItem(const LoraArgs& args, const LoraPlan& plan, Stream& stream,
                     const Compute& compute) {
  int64_t total = 0;
  WalkLora(args, plan, [&](const LoraRectangle& rectangle) {
    total += rectangle.num_pieces * rectangle.piece_cost;
    return true;
  });
  if (total == 0) return;
  const int num_threads = stream.cpu_threads->num_threads();
  if (num_threads == 1 || total < kLoraSerialBytes * kLoraMemoryRows) {
    RunLoraShare(args, plan, 0, total, compute);
    return;
  }
  stream.cpu_threads->Run([&](int worker_idx) {
    RunLoraShare(args, plan, total * worker_idx / num_threads,
                 total * (worker_idx + 1) / num_threads, compute);
  });
}

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
