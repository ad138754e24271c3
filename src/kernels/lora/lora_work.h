// How one LoRA launch is shared by threads: segments x slices x tiles of rows x units (ranks or
// columns), laid out in one line by cost and cut into equal lengths, with no list built and no lock
// taken. Where the cuts fall never changes what a unit computes. Include from lora_cpu.cc only.
#pragma once

#include <cstdint>

#include "kernels/common/cpu_isa.h"
#include "kernels/lora/lora.h"

namespace graft::GRAFT_CPU_NAMESPACE {

// Units [begin, end) of one matrix for a tile of rows.
struct LoraItem {
  const LoraMatrix* matrix = nullptr;
  int32_t slice = 0;
  int64_t row_begin = 0;
  int32_t rows = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// A unit's way from memory costs as much as computing it for so many rows; once in the cache, as
// much as for one.
inline constexpr int64_t kLoraMemoryRows = 12;
// Work of fewer bytes than this is done before another thread is awake.
inline constexpr int64_t kLoraSerialBytes = 48 << 10;

// Calls function(item, cost of one unit) for every tile of rows of every matrix that does
// something, with all of its units; stops when function returns false.
// num_units(matrix, slice) and unit_bytes(matrix) describe a matrix; tiles have at most rows_max.
template <typename NumUnits, typename UnitBytes, typename Function>
void WalkLora(const LoraArgs& args, int32_t rows_max, const NumUnits& num_units,
              const UnitBytes& unit_bytes, const Function& function) {
  for (int32_t s = 0; s < args.num_segments; ++s) {
    const LoraSegment& segment = args.segments[s];
    const int32_t rows = segment.row_end - segment.row_begin;
    if (rows == 0) continue;
    const int32_t num_tiles = (rows + rows_max - 1) / rows_max;
    for (int32_t slice = 0; slice < args.num_slices; ++slice) {
      const LoraMatrix& matrix = args.matrices[segment.adapter_slot * args.matrices_stride + slice];
      const int64_t units = num_units(matrix, slice);
      if (units == 0) continue;
      const int64_t bytes = unit_bytes(matrix);
      for (int32_t tile = 0; tile < num_tiles; ++tile) {
        const int32_t begin = static_cast<int32_t>(int64_t{rows} * tile / num_tiles);
        const int32_t end = static_cast<int32_t>(int64_t{rows} * (tile + 1) / num_tiles);
        const LoraItem item{&matrix, slice, segment.row_begin + begin, end - begin, 0, units};
        if (!function(item, bytes * (end - begin + (tile == 0 ? kLoraMemoryRows : 1)))) return;
      }
    }
  }
}

// The items of the share [begin, end) of the line, each with the one that follows it (null after
// the last) so that its bytes can be fetched ahead.
template <typename NumUnits, typename UnitBytes, typename Compute>
void RunLoraShare(const LoraArgs& args, int32_t rows_max, const NumUnits& num_units,
                  const UnitBytes& unit_bytes, int64_t begin, int64_t end, const Compute& compute) {
  LoraItem pending;
  int64_t position = 0;
  WalkLora(args, rows_max, num_units, unit_bytes, [&](const LoraItem& whole, int64_t unit_cost) {
    if (position >= end) return false;
    // Units whose first byte of cost lies in the share.
    const auto unit_at = [&](int64_t border) {
      if (border <= position) return int64_t{0};
      const int64_t unit = (border - position + unit_cost - 1) / unit_cost;
      return unit < whole.end ? unit : whole.end;
    };
    LoraItem item = whole;
    item.begin = unit_at(begin);
    item.end = unit_at(end);
    position += whole.end * unit_cost;
    if (item.begin == item.end) return true;
    if (pending.matrix != nullptr) compute(pending, &item);
    pending = item;
    return true;
  });
  if (pending.matrix != nullptr) compute(pending, nullptr);
}

// Calls compute(item, next) for all items of the launch, on the stream's threads.
template <typename NumUnits, typename UnitBytes, typename Compute>
void ForEachLoraItem(const LoraArgs& args, Stream& stream, int32_t rows_max,
                     const NumUnits& num_units, const UnitBytes& unit_bytes,
                     const Compute& compute) {
  int64_t total = 0;
  WalkLora(args, rows_max, num_units, unit_bytes, [&](const LoraItem& item, int64_t unit_cost) {
    total += item.end * unit_cost;
    return true;
  });
  if (total == 0) return;
  const int num_threads = stream.cpu_threads->num_threads();
  if (num_threads == 1 || total < kLoraSerialBytes * kLoraMemoryRows) {
    RunLoraShare(args, rows_max, num_units, unit_bytes, 0, total, compute);
    return;
  }
  stream.cpu_threads->Run([&](int worker_idx) {
    RunLoraShare(args, rows_max, num_units, unit_bytes, total * worker_idx / num_threads,
                 total * (worker_idx + 1) / num_threads, compute);
  });
}

}  // namespace graft::GRAFT_CPU_NAMESPACE
