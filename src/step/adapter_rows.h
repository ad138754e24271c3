// Waist 2: an adapter's rows and their places in the pool, as plain integers. The rows of its
// matrices, virtual tokens and tables of pointers lie one after the other in a source of
// `RowsBytes` bytes. A page holds stretches of the source that cut no row.
#pragma once

#include <cstdint>
#include <span>

namespace graft {

// Every row's size and place is a multiple of it.
inline constexpr int32_t kRowAlignment = 64;

// Rows of one size that follow each other in the source.
struct RowRun {
  int32_t row_bytes = 0;
  int32_t num_rows = 0;
};

// source [source_begin, + bytes) lies in `page` from byte page_begin on.
struct PageExtent {
  int32_t page = 0;
  int32_t page_begin = 0;
  int64_t source_begin = 0;
  int64_t bytes = 0;
};

inline int64_t RowsBytes(std::span<const RowRun> runs) {
  int64_t bytes = 0;
  for (const RowRun& run : runs) bytes += int64_t{run.row_bytes} * run.num_rows;
  return bytes;
}

}  // namespace graft
