// TrainedLora: one adapter's LoRA while it learns. It has one rank and is on all projections of
// every layer as the model's checkpoints store them. A stacked projection (qkv_proj) has one A, as
// in PEFT. One thread at a time.
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

  // The memory that one takes.
  static TrainedSize SizeOf(const ModelConfig& config, int32_t rank, DType dtype);
  static int64_t BytesFor(const ModelConfig& config, int32_t rank, DType dtype) {
    return SizeOf(config, rank, dtype).bytes();
  }

  // Begins as PEFT does: A uniform in +-1 / sqrt(in), B zero, drawn from (seed, element).
  void Initialize(uint64_t seed);
  // Takes numbers that were loaded in fp32. kInvalidArgument for other modules, ranks or scales.
  Status Read(const LoraWeights& weights);

  int32_t rank() const { return rank_; }
  float scale() const { return scale_; }
  // Its targets are the projections as stored (ShapeAsStored).
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
