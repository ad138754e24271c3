// The hand-off between a stream and workers of the host that compute for it, without stopping the
// stream's queue (CaraServe, section 4.2): rows of x go to memory that both sides see and a flag is
// raised behind them; later the stream waits for the workers' flags and adds what they computed.
// Flags hold step numbers and are compared around the wrap, so nothing is ever reset.
#pragma once

#include <cstdint>

#include "kernels/lora/lora.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

inline constexpr int32_t kHostSegmentsMax = 16;
inline constexpr int32_t kHostFlagsMax = 64;

// Whether a flag that holds `value` has reached `step`.
inline bool HasReached(uint32_t value, uint32_t step) {
  return static_cast<int32_t>(value - step) >= 0;
}

// Rows that the host computes for, ascending and disjoint, by value: they need no copy of their
// own.
struct HostSegments {
  struct Segment {
    int32_t row_begin = 0;
    int32_t row_end = 0;
    float scale[kLoraSlicesMax] = {};  // of the adapter's modules; 0: leaves this one alone
  };
  Segment segments[kHostSegmentsMax];
  int32_t count = 0;

  int32_t num_rows() const {
    int32_t rows = 0;
    for (int32_t i = 0; i < count; ++i) rows += segments[i].row_end - segments[i].row_begin;
    return rows;
  }
};

struct HostExportArgs {
  HostSegments rows;
  const void* x = nullptr;  // [num_rows, k], rows x_stride elements apart
  int64_t x_stride = 0;
  int64_t k = 0;
  DType dtype = DType::kF32;
  void* out = nullptr;  // [num_rows, k], in memory that the host sees; a row keeps its number
  // Set to `step`, in memory that the host sees, once all rows can be seen there.
  uint32_t* flag = nullptr;
  uint32_t step = 0;
  uint32_t* num_done = nullptr;  // on a GPU: scratch of its own, 0 before the first launch
};

struct HostWaitArgs {
  // Flag i is flags[i * flag_stride], in memory that the host sees.
  const uint32_t* flags = nullptr;
  int64_t flag_stride = 0;
  int32_t num_flags = 0;  // at most kHostFlagsMax
  uint32_t step = 0;
};

struct HostAddArgs {
  HostSegments rows;
  const float* delta = nullptr;  // [num_rows, columns of y], in memory that the host sees
  int64_t delta_stride = 0;
  float* y = nullptr;  // [num_rows, ...], rows y_stride elements apart
  int64_t y_stride = 0;
  int32_t num_slices = 1;
  int64_t slice_begin[kLoraSlicesMax] = {};  // first column of slice s in y and in delta
  int64_t slice_n[kLoraSlicesMax] = {};
};

// out = x for the rows; then the flag is raised.
void HostExport(const HostExportArgs& args, Stream& stream);
// What follows on the stream happens after all flags have reached `step`.
void HostWait(const HostWaitArgs& args, Stream& stream);
// y += scale * delta for the rows, slice by slice: with the sums of B (h A^T) for delta what Lora
// does on the CPU, bit for bit.
void HostAdd(const HostAddArgs& args, Stream& stream);

}  // namespace graft
