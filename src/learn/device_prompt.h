// DevicePrompt: a TrainedPrompt's numbers and the rows that kernels read, where they run. One
// thread at a time.
#pragma once

#include <cstdint>

#include "learn/device_masters.h"
#include "learn/trained_prompt.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace graft {

class DevicePrompt {
 public:
  // Borrows `prompt`.
  DevicePrompt(TrainedPrompt& prompt, Stream& stream);

  DeviceMasters& masters() { return masters_; }
  // Of what is moved (TrainedPrompt::num_frozen).
  AdamWItem Item() { return masters_.Item(num_frozen_); }

  VirtualTokenKind kind() const { return kind_; }
  // TrainedPrompt's of the same name, with pointers of the device.
  VirtualRows rows(int32_t layer) const {
    return is_on_cpu_ ? prompt_.rows(layer)
                      : rows_.as<const void*>() + int64_t{layer} * num_tokens_;
  }
  // A layer's keys and values as attention's backward takes them: the first row, of those that are
  // so many elements apart.
  const void* layer_data(int32_t layer) const {
    if (is_on_cpu_) return prompt_.rounded(layer);
    return copy_.as<char>() + int64_t{layer} * num_tokens_ * row_bytes_;
  }
  int64_t row_elements() const { return is_on_cpu_ ? columns_ : row_bytes_ / DTypeBytes(dtype_); }

 private:
  void PlaceOnGpu(const Stream& stream);

  const TrainedPrompt& prompt_;
  const bool is_on_cpu_;
  const VirtualTokenKind kind_;
  const int32_t num_tokens_;
  const int64_t columns_, num_frozen_;
  const DType dtype_;
  const int64_t row_bytes_;
  DeviceMasters masters_;
  Buffer copy_;  // rounded rows, each on a border
  Buffer rows_;  // pointers to them
};

}  // namespace graft
