// What a TrainingWalker is built for, and the bytes that it allocates. They are the very sizes of
// its buffers, so that they can be summed up before any memory is taken. Pure functions.
#pragma once

#include <cstdint>

#include "kernels/common/kv_layout.h"
#include "model/config.h"
#include "tensor/allocations.h"
#include "tensor/device.h"
#include "tensor/dtype.h"

namespace graft {

// The most sequences of a batch that a GPU's attention takes, and the most examples of a step.
inline constexpr int32_t kTrainingSequencesMax = 2048;

struct TrainingLimits {
  int32_t rows_max = 0;  // of a batch, with virtual embeddings
  int32_t sequences_max = 0;
  int32_t prefix_tokens_max = 0;  // keys and values in front of a sequence
  int32_t rank_max = 0;
  int32_t logits_rows_max = 128;  // rows with logits at a time
  bool chooses = false;           // TrainingDevice::Choose is called
  // Bytes of activations that layers keep for the backward. Other layers keep their inputs.
  int64_t activation_bytes_max = 0;
  // Bytes of layers' transposed weights that are kept, if products cannot read weights transposed.
  // Those of other layers are made anew in every backward.
  int64_t transposed_bytes_max = 0;
};

// A batch's room for choices of a target row, on average. It grows on the CPU.
inline constexpr int32_t kTrainingChoices = 64;

// The bytes of each buffer.
struct TrainingBuffers {
  int32_t num_kept = 0;        // layers that keep their activations
  int32_t num_transposed = 0;  // layers that keep their transposed weights
  int64_t batch = 0;
  int64_t d_hidden_copy = 0;  // 0: products read the residual stream's gradient itself
  int64_t hidden = 0, normed = 0, qkv = 0, gate_up = 0, activated = 0;
  int64_t d_gate_up = 0, d_attended = 0, d_qkv = 0;
  int64_t lora_h = 0, lora_d_h = 0, rounded_h = 0, rounded_d_h = 0;
  int64_t gradient_scratch = 0, gradient_counters = 0;
  int64_t attention_scratch = 0, backward_scratch = 0, d_prefixes = 0;
  int64_t head_hidden = 0, head_normed = 0, logits = 0, d_logits = 0, losses = 0;
};
TrainingBuffers TrainingBuffersOf(const TrainingLimits& limits, const ModelConfig& config,
                                  DType dtype, const Device& device, int num_threads);

// The bytes by what they are for.
struct TrainingSizes {
  int64_t layer_inputs = 0;      // of layers that are computed again
  int64_t kept_activations = 0;  // and those of one layer that is computed again
  int64_t kept_transposed = 0;   // of layers and the head
  int64_t made_transposed = 0;   // the most at a time
  int64_t gradients = 0;         // of activations, with other room for one layer
  int64_t lora = 0;
  int64_t logits = 0;
  int64_t attention = 0;
  int64_t ropes = 0;
  BytesNeeded choices;      // of rows with logits: their likeliest tokens
  int64_t thread_rows = 0;  // of the threads that multiply on the CPU; not in a Buffer

  // What the device has of them.
  int64_t total() const {
    return layer_inputs + kept_activations + kept_transposed + made_transposed + gradients + lora +
           logits + attention + ropes + choices.on_device + thread_rows;
  }
};
// `num_threads`: the CPU's.
TrainingSizes SizesOf(const TrainingLimits& limits, const ModelConfig& config, DType dtype,
                      const Device& device, int num_threads);

// Bytes of what a layer keeps, activations and transposed weights; how many layers fit a budget.
int64_t LayerActivationBytes(const ModelConfig& config, DType dtype, const Device& device,
                             int32_t rows_max);
int64_t LayerTransposedBytes(const ModelConfig& config, DType dtype, const Device& device);
int64_t NumLayersWithin(int64_t bytes_max, int64_t layer_bytes, const ModelConfig& config);

// The pages have room for one layer, which all layers use in turn.
KvLayout TrainingPoolLayout(const ModelConfig& config, DType dtype, const Device& device);
int32_t NumTrainingPages(const TrainingLimits& limits);

}  // namespace graft
