// TrainedLora: one adapter while it learns: LoRA of one rank on all projections of every layer, as
// checkpoints of the model have these. Stacked ones (qkv_proj) have one A, as PEFT has it. One
// thread at a time.
#pragma once

#include <cstdint>

#include "adapters/lora_weights.h"
#include "base/status.h"
#include "kernels/lora/lora.h"
#include "learn/trained_numbers.h"
#include "model/config.h"
#include "model/lora_module.h"

namespace graft {

class TrainedLora : public TrainedNumbers {
 public:
  TrainedLora(const ModelConfig& config, int32_t rank, float scale, DType dtype);

  // What one takes in all.
  static TrainedSize SizeOf(const ModelConfig& config, int32_t rank, DType dtype);
  static int64_t BytesFor(const ModelConfig& config, int32_t rank, DType dtype) {
    return SizeOf(config, rank, dtype).bytes();
  }

  // As PEFT begins: A uniform in +-1 / sqrt(in), B zero. Drawn from (seed, element).
  void Initialize(uint64_t seed);
  // The numbers of an adapter that was loaded in fp32. kInvalidArgument where it has other modules,
  // ranks or scales.
  Status Read(const LoraWeights& weights);

  int32_t rank() const { return rank_; }
  float scale() const { return scale_; }
  // Whose targets are the projections that it is on: ShapeAsStored.
  const ModelShape& shape() const { return shape_; }

  // Where a target's matrix lies in parameters(): A [rank, in], or B transposed [rank, out].
  struct Place {
    int64_t begin;
    int64_t n;  // columns
  };
  Place place(int32_t layer, LoraModule target, LoraSide side) const;

 private:
  const ModelConfig config_;
  const ModelShape shape_;
  const int32_t rank_;
  const float scale_;
};

}  // namespace graft
