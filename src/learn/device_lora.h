// DeviceLora: a TrainedLora's numbers and the matrices that LoRA's kernels read, on the device that
// computes with them. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/lora/lora.h"
#include "learn/device_masters.h"
#include "learn/trained_lora.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace graft {

class DeviceLora {
 public:
  // Borrows both.
  DeviceLora(TrainedLora& lora, Stream& stream);

  // The bytes that one takes on a GPU.
  static int64_t BytesFor(const ModelConfig& config, int32_t rank, DType dtype);

  DeviceMasters& masters() { return masters_; }

  // Each is [ModelShape::num_layer_matrices], for LoraArgs and LearningStep. On the CPU all of
  // stacked() have rank 0.
  const std::vector<LoraMatrix>& matrices() const { return matrices_; }
  const std::vector<LoraMatrix>& swapped() const { return swapped_; }
  const std::vector<LoraMatrix>& stacked() const { return stacked_; }
  int32_t rank() const { return lora_.rank(); }
  float scale() const { return lora_.scale(); }

 private:
  void Stack(const Stream& stream);

  const TrainedLora& lora_;
  DeviceMasters masters_;
  Buffer stacked_rows_;  // pointers to the rows of each matrix's A
  std::vector<LoraMatrix> matrices_, swapped_, stacked_;
};

}  // namespace graft
