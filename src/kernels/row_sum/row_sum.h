// RowSum: sums[i] += x[0][i] + x[1][i] + ..., one after the other in double precision: rows that
// come in several calls make the sums that they make in one, on every device.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace graft {

struct RowSumArgs {
  const float* x = nullptr;  // [num_rows, n]
  int64_t num_rows = 0;
  int64_t n = 0;
  double* sums = nullptr;  // [n]
};

void RowSum(const RowSumArgs& args, Stream& stream);

}  // namespace graft
