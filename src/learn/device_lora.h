// DeviceLora: a TrainedLora's numbers and the matrices that LoRA's kernels read, where they run.
// One thread at a time.
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
  // Borrows `lora`.
  DeviceLora(const ModelConfig& config, TrainedLora& lora, DType dtype, Stream& stream);

  // On a GPU.
  static int64_t BytesFor(const ModelConfig& config, int32_t rank, DType dtype);

  DeviceMasters& masters() { return masters_; }

  // [layers * kLoraModules], with pointers of the device: TrainedLora's of the same names.
  const std::vector<LoraMatrix>& matrices() const { return matrices_; }
  const std::vector<LoraMatrix>& swapped() const { return swapped_; }
  // [layers * kLoraModules], of them those of q and gate: with A's rows of q, k and v, or of gate
  // and up, one below the other in B's place, which takes all of their h to x at once. On a GPU.
  const std::vector<LoraMatrix>& stacked() const { return stacked_; }
  int32_t rank() const { return rank_; }
  float scale() const { return scale_; }

 private:
  void PlaceOnGpu(const ModelConfig& config, const TrainedLora& lora, DType dtype,
                  const Stream& stream);

  const int32_t rank_;
  const float scale_;
  DeviceMasters masters_;
  Buffer copy_;          // rounded rows, each on a border
  Buffer rows_;          // pointers to them
  Buffer stacked_rows_;  // of each layer, pointers to A's rows of q, k, v, gate and up
  std::vector<LoraMatrix> matrices_, swapped_, stacked_;
};

}  // namespace graft
