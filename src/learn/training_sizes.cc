#include "learn/training_sizes.h"

#include <algorithm>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention_backward/attention_backward.h"
#include "kernels/common/virtual_rows.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora/lora.h"
#include "kernels/lora_gradient/lora_gradient.h"
#include "kernels/sampling/sampling.h"
#include "kernels/virtual_gradient/virtual_gradient.h"
#include "layers/layer_kept.h"
#include "layers/served_types.h"
#include "layers/transposed_weights.h"
#include "model/kv_pool.h"
#include "model/lora_module.h"
#include "model/rope_table.h"

namespace graft {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr int32_t kTrainingPageTokens = 16;

DType ActivationsOf(DType dtype, const Device& device) {
  return TypesOf(dtype, device).activations(device);
}

int64_t BackwardScratchFloats(const TrainingLimits& limits, const ModelConfig& config, DType dtype,
                              const Device& device, int num_threads) {
  if (!device.is_cpu()) {
    return AttentionBackwardGpuFloats(limits.rows_max, config.num_heads, config.head_dim, dtype);
  }
  return AttentionBackwardFloats(limits.rows_max + limits.prefix_tokens_max, config.head_dim,
                                 num_threads);
}

int64_t ThreadRowsBytes(const TrainingLimits& limits, const ModelConfig& config, DType dtype,
                        int num_threads) {
  const int64_t widest = std::max<int64_t>(
      {config.hidden_size, config.q_size(), config.qkv_size(), config.gate_up_size()});
  return std::max(GemmScratchBytes(limits.rows_max, widest, dtype, num_threads),
                  GemmScratchBytes(limits.logits_rows_max, config.vocab_size, dtype, num_threads));
}

int64_t BatchBytes(const TrainingLimits& limits, const ModelConfig& config) {
  // A row has four arrays and targets; 64 rows have a segment in each of three lists. A sequence
  // has adapters' segments and what stands in front of it. Then there are pages, and gaps of 16
  // bytes.
  const int64_t rows = limits.rows_max;
  const int64_t per_row = 4 * 4 + 4 + 4 + 8 * kTrainingChoices;
  const int64_t per_sequence = 3 * 4 + 4 + 6 * sizeof(LoraSegment) + sizeof(LoraGradientSegment) +
                               2 * (sizeof(VirtualRun) + sizeof(VirtualGradientItem) + 4);
  const int64_t prefixes =
      limits.prefix_tokens_max == 0
          ? 0
          : int64_t{config.num_layers} * limits.sequences_max * sizeof(AttentionPrefix);
  return rows * per_row + rows / 64 * static_cast<int64_t>(3 * sizeof(LoraSegment)) +
         (limits.sequences_max + 1) * per_sequence + prefixes + NumTrainingPages(limits) * 4 + 4096;
}

// What Choose finds is the host's on a GPU, too.
BytesNeeded ChoicesBytes(const TrainingLimits& limits, const ModelConfig& config,
                         const Device& device) {
  if (!limits.chooses) return {};
  const int64_t found = limits.logits_rows_max * int64_t{sizeof(SampledToken)};
  if (device.is_cpu()) return {.on_device = found};
  BytesNeeded needed = SamplingScratch::BytesFor(limits.logits_rows_max,
                                                 static_cast<int32_t>(config.vocab_size), device);
  needed.on_host += found;
  return needed;
}

// The columns of LoRA's A's and B's together, in the product that has most.
int64_t GradientColumnsMax(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  return std::max({3 * hidden + config.qkv_size(), config.q_size() + hidden,
                   2 * hidden + config.gate_up_size(), intermediate + hidden});
}

}  // namespace

int64_t NumLayersWithin(int64_t bytes_max, int64_t layer_bytes, const ModelConfig& config) {
  return std::min<int64_t>(bytes_max / layer_bytes, config.num_layers);
}

KvLayout TrainingPoolLayout(const ModelConfig& config, DType dtype, const Device& device) {
  KvLayout layout = MakeKvLayout(config, kTrainingPageTokens, TypesOf(dtype, device).kv);
  layout.num_layers = 1;
  return layout;
}

int32_t NumTrainingPages(const TrainingLimits& limits) {
  const int32_t prefix_pages =
      (limits.prefix_tokens_max + kTrainingPageTokens - 1) / kTrainingPageTokens;
  return limits.rows_max / kTrainingPageTokens + limits.sequences_max * (1 + prefix_pages);
}

int64_t LayerActivationBytes(const ModelConfig& config, DType dtype, const Device& device,
                             int32_t rows_max) {
  return LayerKeptRoom::BytesFor(config, config.layers, rows_max, ActivationsOf(dtype, device));
}

int64_t LayerTransposedBytes(const ModelConfig& config, DType dtype, const Device& device) {
  return TransposedWeights::LayerBytes(config, dtype, device);
}

TrainingBuffers TrainingBuffersOf(const TrainingLimits& limits, const ModelConfig& config,
                                  DType dtype, const Device& device, int num_threads) {
  const int64_t rows = limits.rows_max;
  const int64_t element = DTypeBytes(ActivationsOf(dtype, device));
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  TrainingBuffers sizes;
  sizes.num_kept = static_cast<int32_t>(
      NumLayersWithin(limits.activation_bytes_max,
                      LayerActivationBytes(config, dtype, device, limits.rows_max), config));
  if (const int64_t transposed = LayerTransposedBytes(config, dtype, device); transposed > 0) {
    sizes.num_transposed =
        static_cast<int32_t>(NumLayersWithin(limits.transposed_bytes_max, transposed, config));
  }
  sizes.batch = BatchBytes(limits, config);
  sizes.hidden = rows * hidden * kFloatBytes;
  sizes.normed = rows * hidden * element;
  // Products read it rounded or scaled, or an output norm makes it.
  if (element < kFloatBytes || std::ranges::any_of(config.layers, &LayerSpec::has_branch)) {
    sizes.d_hidden_copy = sizes.normed;
  }
  sizes.qkv = rows * config.qkv_size() * kFloatBytes;
  sizes.gate_up = rows * config.gate_up_size() * kFloatBytes;
  sizes.activated = rows * intermediate * element;
  sizes.d_gate_up = rows * config.gate_up_size() * element;
  sizes.d_attended = rows * config.q_size() * kFloatBytes;
  sizes.d_qkv = rows * config.qkv_size() * element;
  sizes.lora_h = LoraScratchFloats(device, rows * kLoraSlicesMax, limits.rank_max) * kFloatBytes;
  // The ranks of a product's slices lie side by side.
  sizes.lora_d_h = LoraScratchFloats(device, rows, kLoraSlicesMax * limits.rank_max) * kFloatBytes;
  const int64_t rank_row = LoraGradientRankStride(limits.rank_max) * element;
  sizes.rounded_h = rows * ShapeAsStored(config).num_layer_matrices() * rank_row;
  sizes.rounded_d_h = rows * kLoraSlicesMax * rank_row;
  const int64_t columns = GradientColumnsMax(config);
  sizes.gradient_scratch = LoraGradientScratchFloats(device, limits.rows_max, limits.sequences_max,
                                                     limits.rank_max, columns) *
                           kFloatBytes;
  sizes.gradient_counters =
      LoraGradientCounters(device, limits.sequences_max, limits.rank_max, columns) *
      int64_t{sizeof(uint32_t)};
  const int32_t tokens_max =
      std::min(limits.rows_max + limits.prefix_tokens_max, config.context_tokens_max);
  sizes.attention_scratch =
      AttentionScratchBytes(TrainingPoolLayout(config, dtype, device), config.num_heads,
                            limits.sequences_max, tokens_max, device);
  sizes.backward_scratch =
      BackwardScratchFloats(limits, config, dtype, device, num_threads) * kFloatBytes;
  sizes.d_prefixes =
      int64_t{limits.sequences_max} * limits.prefix_tokens_max * 2 * config.kv_size() * kFloatBytes;
  const int64_t head_rows = limits.logits_rows_max;
  sizes.head_hidden = head_rows * hidden * kFloatBytes;
  sizes.head_normed = head_rows * hidden * element;
  sizes.logits = head_rows * config.vocab_size * kFloatBytes;
  // In fp32 logits become their gradients in place.
  if (element < kFloatBytes) sizes.d_logits = head_rows * config.vocab_size * element;
  sizes.losses = rows * int64_t{sizeof(double)};
  return sizes;
}

TrainingSizes SizesOf(const TrainingLimits& limits, const ModelConfig& config, DType dtype,
                      const Device& device, int num_threads) {
  const TrainingBuffers buffers = TrainingBuffersOf(limits, config, dtype, device, num_threads);
  const int64_t layer = LayerActivationBytes(config, dtype, device, limits.rows_max);
  const int64_t transposed = LayerTransposedBytes(config, dtype, device);
  const int32_t again = config.num_layers - buffers.num_kept;
  TrainingSizes sizes;
  sizes.layer_inputs = again * buffers.hidden;
  sizes.kept_activations = (buffers.num_kept + (again > 0 ? 1 : 0)) * layer;
  const int64_t head =
      transposed == 0 ? 0
                      : GemmWeight::BytesFor(config.hidden_size, config.vocab_size, dtype, device);
  sizes.kept_transposed = head + buffers.num_transposed * transposed;
  if (transposed > 0 && buffers.num_transposed < config.num_layers) {
    sizes.made_transposed = TransposedWeights::MadeBytes(config, dtype, device);
  }
  sizes.gradients = 3 * buffers.hidden + buffers.d_hidden_copy + buffers.normed + buffers.qkv +
                    buffers.gate_up + buffers.activated + buffers.d_gate_up + buffers.d_attended +
                    buffers.d_qkv + buffers.batch;
  sizes.lora = buffers.lora_h + buffers.lora_d_h + buffers.rounded_h + buffers.rounded_d_h +
               buffers.gradient_scratch + buffers.gradient_counters;
  sizes.logits = 2 * (buffers.head_hidden + buffers.head_normed) + buffers.logits +
                 buffers.d_logits + buffers.losses;
  sizes.attention =
      buffers.attention_scratch + buffers.backward_scratch + buffers.d_prefixes +
      TrainingPoolLayout(config, dtype, device).PageBytes() * NumTrainingPages(limits);
  sizes.choices = ChoicesBytes(limits, config, device);
  sizes.ropes = RopeTablesBytes(config, config.context_tokens_max, /*go_back=*/true);
  if (device.is_cpu()) sizes.thread_rows = ThreadRowsBytes(limits, config, dtype, num_threads);
  return sizes;
}

}  // namespace graft
