// GpuPrompt: a TrainedPrompt's numbers in a GPU's memory, and the rows that kernels read. One
// thread at a time.
#pragma once

#include <cstdint>

#include "learn/gpu_masters.h"
#include "learn/trained_prompt.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace graft {

class GpuPrompt {
 public:
  GpuPrompt(const TrainedPrompt& prompt, Stream& stream);

  GpuMasters& masters() { return masters_; }
  // Of what is moved (TrainedPrompt::num_frozen).
  AdamWItem Item() { return masters_.Item(num_frozen_); }

  VirtualTokenKind kind() const { return kind_; }
  // TrainedPrompt's of the same name, with pointers of the device.
  VirtualRows rows(int32_t layer) const {
    return rows_.as<const void*>() + int64_t{layer} * num_tokens_;
  }
  // Of a layer, the first of its rows, which are so many elements apart.
  const void* layer_data(int32_t layer) const {
    return copy_.as<char>() + int64_t{layer} * num_tokens_ * row_bytes_;
  }
  int64_t row_elements() const { return row_bytes_ / DTypeBytes(dtype_); }

 private:
  const VirtualTokenKind kind_;
  const int32_t num_tokens_;
  const int64_t columns_, num_frozen_;
  const DType dtype_;
  const int64_t row_bytes_;
  GpuMasters masters_;
  Buffer copy_;  // rounded rows, each on a border
  Buffer rows_;  // pointers to them
};

}  // namespace graft
