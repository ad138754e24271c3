// Where the copies are, for both twins: plain data.
#pragma once

#include <cstdint>

#include "kernels/lora/lora.h"
#include "tensor/stream.h"

namespace graft {

struct LoraPaddedWork {
  LoraArgs lora;
  int32_t rank = 0;
  char* rows = nullptr;  // [num_segments][segment_bytes]
  int64_t segment_bytes = 0;
  int64_t slice_begin[kLoraSlicesMax] = {};  // bytes from the segment's first
  int64_t a_row_bytes = 0;                   // a slice: [rank] rows of A, then
  int64_t b_row_bytes[kLoraSlicesMax] = {};  // [rank] rows of B
  const void** tables = nullptr;             // [num_segments][num_slices][2][rank]
  LoraMatrix* matrices = nullptr;            // [num_segments][num_slices]
  LoraSegment* segments = nullptr;           // [num_segments]: segment i's slot is i
};

// Fills all of it.
void CopyPaddedCuda(const LoraPaddedWork& work, Stream& stream);

}  // namespace graft
