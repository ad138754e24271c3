// Splits the rows of an element-wise op over the stream's threads where their bytes pay for a
// fork-join, which costs a few microseconds. The split never changes a row's result.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace graft {

// Bytes read and written below which one thread is done before a second one would have begun.
inline constexpr int64_t kForkBytes = int64_t{128} << 10;

// Calls function(begin, end) over disjoint ranges that cover [0, num_rows).
template <typename Function>
void ParallelRows(int64_t num_rows, int64_t bytes_per_row, Stream& stream,
                  const Function& function) {
  if (num_rows <= 0) return;
  if (num_rows * bytes_per_row < kForkBytes) {
    function(int64_t{0}, num_rows);
  } else {
    stream.cpu_threads->ParallelFor(num_rows, 1, function);
  }
}

}  // namespace graft
