// MergedWeights: copies of a model's projections with one adapter merged into them: x (W + AB) in
// place of x W + x A B, as S-LoRA's Figure 7 compares. The base weights are not changed. Main
// thread only, while no step runs.
#pragma once

#include <cstdint>
#include <vector>

#include "model/config.h"
#include "model/forward_batch.h"
#include "model/weights.h"
#include "tensor/stream.h"

namespace graft {

class MergedWeights {
 public:
  // Room on the device of `base`, which is borrowed: BytesFor, until Merge holding nothing.
  MergedWeights(const ModelConfig& config, const ModelWeights& base);
  static int64_t BytesFor(const ModelConfig& config, DType dtype, const Device& device);

  // Merges the adapter in `slot`, in the serving dtype, in place of the one merged before. Waits
  // for the device.
  void Merge(const LoraTable& loras, int32_t slot, Stream& stream);

 private:
  const ModelConfig config_;
  const ModelWeights& base_;
  std::vector<LayerProjections> layers_;
};

}  // namespace graft
