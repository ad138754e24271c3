// The very sizes of GpuTraining's buffers, in bytes. Pure functions.
#pragma once

#include <cstdint>

#include "kernels/common/kv_layout.h"
#include "learn/training_sizes.h"
#include "model/config.h"
#include "tensor/device.h"

namespace graft {

// Choices of a row, as targets name them, that a batch has room for on average.
inline constexpr int32_t kGpuChoices = 64;

struct GpuTrainingBuffers {
  int32_t num_kept = 0;        // layers whose activations are kept
  int32_t num_transposed = 0;  // and whose transposed weights are
  int64_t batch = 0;
  int64_t hidden = 0, normed = 0, qkv = 0, gate_up = 0, activated = 0;
  int64_t d_gate_up = 0, d_attended = 0, d_qkv = 0;
  int64_t lora_h = 0, lora_d_h = 0, rounded_h = 0, rounded_d_h = 0;
  int64_t gradient_scratch = 0, gradient_counters = 0;
  int64_t attention_scratch = 0, backward_scratch = 0, d_prefixes = 0;
  int64_t head_hidden = 0, head_normed = 0, logits = 0, d_logits = 0, losses = 0;
  int64_t head_states = 0;
};
GpuTrainingBuffers GpuTrainingBuffersOf(const TrainingLimits& limits, const ModelConfig& config,
                                        DType dtype, const Device& device);

// Of the pages that all layers take in turn.
KvLayout GpuPoolLayout(const ModelConfig& config, DType dtype, const Device& device);

}  // namespace graft
