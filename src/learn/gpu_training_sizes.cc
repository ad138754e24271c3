#include "learn/gpu_training_sizes.h"

#include <algorithm>
#include <string>

#include "kernels/attention/attention.h"
#include "kernels/attention_backward/attention_backward.h"
#include "kernels/common/virtual_rows.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora/lora.h"
#include "kernels/lora_gradient/lora_gradient.h"
#include "kernels/virtual_gradient/virtual_gradient.h"
#include "learn/gpu_lora.h"
#include "learn/training_device.h"
#include "learn/training_transformer.h"
#include "model/kv_pool.h"
#include "model/rope_table.h"
#include "tensor/device_traits.h"

namespace graft {
namespace {

constexpr int64_t kFloat = sizeof(float);

Status NotOnGpu(const std::string& what) {
  return UnimplementedError("training on a GPU does not cover " + what);
}

int64_t BatchBytes(const TrainingLimits& limits, const ModelConfig& config) {
  // Rows: four arrays, segments of 64, in three lists, and of adapters; targets; sequences with
  // what stands in front of them; pages; borders of 16.
  const int64_t rows = limits.rows_max;
  const int64_t per_row = 4 * 4 + 4 + 4 + 8 * kGpuChoices;
  const int64_t per_sequence = 3 * 4 + 4 + 6 * sizeof(LoraSegment) + sizeof(LoraGradientSegment) +
                               2 * (sizeof(VirtualRun) + sizeof(VirtualGradientItem) + 4);
  const int64_t prefixes =
      limits.prefix_tokens_max == 0
          ? 0
          : int64_t{config.num_layers} * limits.sequences_max * sizeof(AttentionPrefix);
  return rows * per_row + rows / 64 * static_cast<int64_t>(3 * sizeof(LoraSegment)) +
         (limits.sequences_max + 1) * per_sequence + prefixes + NumTrainingPages(limits) * 4 + 4096;
}

// Of LoRA's matrices that one product has, A's and B's.
int64_t GradientColumnsMax(const ModelConfig& config) {
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  return std::max({3 * hidden + config.qkv_size(), config.q_size() + hidden,
                   2 * hidden + 2 * intermediate, intermediate + hidden});
}

}  // namespace

Status CheckTrainableOnGpu(const ModelConfig& config, DType dtype, const Device& device) {
  RETURN_IF_ERROR(CheckTrainable(config, device));
  if (dtype == DType::kF16) return NotOnGpu("fp16, whose gradients vanish (--dtype bf16)");
  if (config.num_rotary() != config.head_dim) {
    return NotOnGpu("heads that turn in part (partial_rotary_factor)");
  }
  if (dtype == DType::kF32) return OkStatus();
  RETURN_IF_ERROR(CheckAttentionBackward(dtype, config.head_dim, device));
  const KvLayout layout = GpuPoolLayout(config, dtype, device);
  if (!TraitsOf(device).has_hopper_code) return NotOnGpu("bf16 on cards before Hopper");
  if (!AttentionTellsGivenRows(layout, device)) {
    return NotOnGpu("bf16 with heads of " + std::to_string(config.head_dim) +
                    ", for which attention has no kernel of given rows");
  }
  if (config.hidden_size % 8 != 0 || config.intermediate_size % 8 != 0 ||
      config.vocab_size % 8 != 0) {
    return NotOnGpu(
        "sizes in bf16 that are no multiples of 8 (hidden_size, intermediate_size, "
        "vocab_size)");
  }
  return OkStatus();
}

KvLayout GpuPoolLayout(const ModelConfig& config, DType dtype, const Device& device) {
  KvLayout layout = TrainingPoolLayout(config, dtype);
  layout.dtype = TypesOf(dtype, device).kv;
  return layout;
}

int64_t GpuLayerActivationBytes(const ModelConfig& config, DType dtype, int32_t rows_max) {
  const int64_t row = int64_t{2} * config.hidden_size + config.qkv_size() + config.q_size() +
                      int64_t{2} * config.intermediate_size;
  return row * rows_max * DTypeBytes(dtype);
}

int64_t GpuLayerTransposedBytes(const ModelConfig& config, DType dtype, const Device& device) {
  if (GemmReadsTransposed(dtype, device)) return 0;
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  return GemmWeight::BytesFor(hidden, config.qkv_size(), dtype, device) +
         GemmWeight::BytesFor(config.q_size(), hidden, dtype, device) +
         GemmWeight::BytesFor(hidden, 2 * intermediate, dtype, device) +
         GemmWeight::BytesFor(intermediate, hidden, dtype, device);
}

int64_t GpuAdapterBytes(const ModelConfig& config, int32_t rank, DType dtype) {
  return GpuLora::BytesFor(config, rank, dtype);
}

GpuTrainingBuffers GpuTrainingBuffersOf(const TrainingLimits& limits, const ModelConfig& config,
                                        DType dtype, const Device& device) {
  const int64_t rows = limits.rows_max;
  const int64_t element = DTypeBytes(dtype);
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  GpuTrainingBuffers sizes;
  sizes.num_kept = static_cast<int32_t>(
      NumLayersWithin(limits.activation_bytes_max,
                      GpuLayerActivationBytes(config, dtype, limits.rows_max), config));
  if (const int64_t transposed = GpuLayerTransposedBytes(config, dtype, device); transposed > 0) {
    sizes.num_transposed =
        static_cast<int32_t>(NumLayersWithin(limits.transposed_bytes_max, transposed, config));
  }
  sizes.batch = BatchBytes(limits, config);
  sizes.hidden = rows * hidden * kFloat;
  sizes.normed = rows * hidden * element;
  sizes.qkv = rows * config.qkv_size() * kFloat;
  sizes.gate_up = rows * 2 * intermediate * kFloat;
  sizes.activated = rows * intermediate * element;
  sizes.d_gate_up = 2 * sizes.activated;
  sizes.d_attended = rows * config.q_size() * kFloat;
  sizes.d_qkv = rows * config.qkv_size() * element;
  sizes.lora_h = LoraScratchFloats(device, rows * kLoraSlicesMax, limits.rank_max) * kFloat;
  // Slices' ranks lie side by side.
  sizes.lora_d_h = LoraScratchFloats(device, rows, kLoraSlicesMax * limits.rank_max) * kFloat;
  const int64_t rank_row = LoraGradientRankStride(limits.rank_max) * element;
  sizes.rounded_h = rows * kLoraModules * config.num_layers * rank_row;
  sizes.rounded_d_h = rows * kLoraSlicesMax * rank_row;
  const int64_t columns = GradientColumnsMax(config);
  sizes.gradient_scratch = LoraGradientScratchFloats(device, limits.rows_max, limits.sequences_max,
                                                     limits.rank_max, columns) *
                           kFloat;
  sizes.gradient_counters =
      LoraGradientCounters(device, limits.sequences_max, limits.rank_max, columns) *
      int64_t{sizeof(uint32_t)};
  const int32_t tokens_max =
      std::min(limits.rows_max + limits.prefix_tokens_max, config.context_tokens_max);
  sizes.attention_scratch =
      AttentionScratchBytes(GpuPoolLayout(config, dtype, device), config.num_heads,
                            limits.sequences_max, tokens_max, device);
  sizes.backward_scratch =
      AttentionBackwardGpuFloats(limits.rows_max, config.num_heads, config.head_dim, dtype) *
      kFloat;
  sizes.d_prefixes =
      int64_t{limits.sequences_max} * limits.prefix_tokens_max * 2 * config.kv_size() * kFloat;
  const int64_t head_rows = limits.logits_rows_max;
  sizes.head_hidden = head_rows * hidden * kFloat;
  sizes.head_normed = head_rows * hidden * element;
  sizes.logits = head_rows * config.vocab_size * kFloat;
  sizes.d_logits = head_rows * config.vocab_size * element;
  sizes.losses = rows * int64_t{sizeof(double)};
  sizes.head_states = sizes.head_hidden;
  return sizes;
}

TrainingSizes GpuTrainingSizesOf(const TrainingLimits& limits, const ModelConfig& config,
                                 DType dtype, const Device& device) {
  const GpuTrainingBuffers buffers = GpuTrainingBuffersOf(limits, config, dtype, device);
  const int64_t layer = GpuLayerActivationBytes(config, dtype, limits.rows_max);
  const int64_t transposed = GpuLayerTransposedBytes(config, dtype, device);
  const int32_t again = config.num_layers - buffers.num_kept;
  TrainingSizes sizes;
  sizes.layer_inputs = again * buffers.hidden;
  sizes.kept_activations = (buffers.num_kept + (again > 0 ? 1 : 0)) * layer;
  const int64_t head =
      transposed == 0 ? 0
                      : GemmWeight::BytesFor(config.hidden_size, config.vocab_size, dtype, device);
  sizes.kept_transposed = head + buffers.num_transposed * transposed;
  sizes.made_transposed = buffers.num_transposed < config.num_layers ? transposed : 0;
  const int64_t copy = dtype == DType::kF32 ? 0 : buffers.normed;
  sizes.gradients = 3 * buffers.hidden + copy + buffers.normed + buffers.qkv + buffers.gate_up +
                    buffers.activated + buffers.d_gate_up + buffers.d_attended + buffers.d_qkv +
                    buffers.batch;
  sizes.lora = buffers.lora_h + buffers.lora_d_h + buffers.rounded_h + buffers.rounded_d_h +
               buffers.gradient_scratch + buffers.gradient_counters;
  sizes.logits = 2 * (buffers.head_hidden + buffers.head_normed) + buffers.logits +
                 buffers.d_logits + buffers.losses + buffers.head_states;
  sizes.attention = buffers.attention_scratch + buffers.backward_scratch + buffers.d_prefixes +
                    GpuPoolLayout(config, dtype, device).PageBytes() * NumTrainingPages(limits);
  // Cosines, sines, and the sines of turns back.
  sizes.ropes = RopeTablesBytes(config, config.context_tokens_max) * 3 / 2;
  return sizes;
}

}  // namespace graft
