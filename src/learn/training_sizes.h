// What a TrainingWalker is built for, and the bytes that it allocates for that: the very sizes of
// its buffers, so that they can be summed up before anything is taken. Pure functions.
#pragma once

#include <cstdint>

#include "kernels/common/kv_layout.h"
#include "model/config.h"
#include "tensor/device.h"
#include "tensor/dtype.h"

namespace graft {

// Sequences of one batch: a GPU's attention takes no more. An adapter's step has no more examples.
inline constexpr int32_t kTrainingSequencesMax = 2048;

struct TrainingLimits {
  int32_t rows_max = 0;  // of a batch, virtual embeddings included
  int32_t sequences_max = 0;
  int32_t prefix_tokens_max = 0;  // keys and values that stand before a sequence
  int32_t rank_max = 0;
  int32_t logits_rows_max = 128;  // at once
  // Of activations that are kept from the forward to the backward; of other layers their inputs
  // are.
  int64_t activation_bytes_max = 0;
  // Of layers' transposed weights that are kept, where products do not read them transposed; the
  // others' are made anew in every backward.
  int64_t transposed_bytes_max = 0;
};

// Choices of a row, as targets name them, that a batch has room for on average; on the CPU the room
// grows where there are more.
inline constexpr int32_t kTrainingChoices = 64;

// Each buffer.
struct TrainingBuffers {
  int32_t num_kept = 0;        // layers whose activations are kept
  int32_t num_transposed = 0;  // and whose transposed weights are
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

// What they are for.
struct TrainingSizes {
  int64_t layer_inputs = 0;      // of layers that are computed again
  int64_t kept_activations = 0;  // and those of one layer that is computed again
  int64_t kept_transposed = 0;   // of layers and the head
  int64_t made_transposed = 0;   // at most at once
  int64_t gradients = 0;         // of activations, and other room for one layer
  int64_t lora = 0;
  int64_t logits = 0;
  int64_t attention = 0;
  int64_t ropes = 0;
  int64_t thread_rows = 0;  // of the threads that multiply on the CPU; no Buffers

  int64_t total() const {
    return layer_inputs + kept_activations + kept_transposed + made_transposed + gradients + lora +
           logits + attention + ropes + thread_rows;
  }
};
// `num_threads`: of the CPU.
TrainingSizes SizesOf(const TrainingLimits& limits, const ModelConfig& config, DType dtype,
                      const Device& device, int num_threads);

// What a layer's kept activations and its kept transposed weights take, and how many layers a
// budget is enough for.
int64_t LayerActivationBytes(const ModelConfig& config, DType dtype, const Device& device,
                             int32_t rows_max);
int64_t LayerTransposedBytes(const ModelConfig& config, DType dtype, const Device& device);
int64_t NumLayersWithin(int64_t bytes_max, int64_t layer_bytes, const ModelConfig& config);

// Of the pages that all layers take in turn.
KvLayout TrainingPoolLayout(const ModelConfig& config, DType dtype, const Device& device);
int32_t NumTrainingPages(const TrainingLimits& limits);

}  // namespace graft
