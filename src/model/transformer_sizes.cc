#include "model/transformer_sizes.h"

#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/gemm/gemm.h"
#include "model/lora_module.h"
#include "model/matrix_codes.h"
#include "model/rope_table.h"
#include "model/shard.h"

namespace graft {
namespace {

constexpr int64_t kFloat = sizeof(float);

// The widest projection's.
int64_t CodesRoomBytes(const ModelConfig& config, const ServedTypes& types, int64_t rows,
                       const Device& device) {
  if (!types.has_codes() || device.is_cpu()) return 0;
  const MatrixFormats formats(config, types);
  int64_t bytes = 0;
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    const auto add = [&](LayerProduct product, int64_t n, int64_t k) {
      bytes = std::max(bytes, GemmRoomBytes(rows, n, k, formats.Of(layer, product), device));
    };
    add(LayerProduct::kQkv, config.qkv_size(), config.hidden_size);
    add(LayerProduct::kO, config.hidden_size, config.q_size());
    add(LayerProduct::kGateUp, config.gate_up_size(), config.hidden_size);
    add(LayerProduct::kDown, config.hidden_size, config.intermediate_size);
  }
  return bytes;
}

}  // namespace

ForwardBatchLimits BatchLimitsOf(const TransformerLimits& limits, const ModelConfig& config,
                                 const KvLayout& layout, const Device& device) {
  ForwardBatchLimits batch;
  batch.num_rows = limits.step_tokens_max;
  batch.num_sequences = limits.num_sequences();
  batch.num_logits_rows = limits.logits_rows_max;
  const int64_t context_pages =
      (int64_t{limits.context_tokens_max} + layout.page_tokens - 1) / layout.page_tokens;
  batch.num_pages = batch.num_sequences * context_pages;
  batch.kv_tokens = limits.context_tokens_max;
  batch.window = config.widest_window();
  batch.tells_given_rows = AttentionTellsGivenRows(layout, device);
  return batch;
}

int64_t PartFloatsOf(const TransformerLimits& limits, const ModelConfig& config,
                     int32_t num_ranks) {
  // Two: LayerScratch::squares.
  return std::max(int64_t{limits.step_tokens_max} * std::max(config.hidden_size, 2),
                  limits.logits_rows_max * VocabularySliceMax(config, num_ranks));
}

std::vector<int64_t> RankSumsOf(const ModelConfig& config) {
  std::vector<int64_t> sums = {config.hidden_size};
  for (const LayerSpec& layer : config.layers) {
    if (layer.norms_among_ranks(true)) sums.push_back(2);
    sums.insert(sums.end(), 2, config.hidden_size);
  }
  return sums;
}

TransformerSizes SizesOf(const TransformerLimits& limits, const ModelConfig& config,
                         const ServedTypes& types, const KvLayout& layout, const Device& device) {
  const int64_t rows = limits.step_tokens_max;
  const int64_t hidden = config.hidden_size;
  const int64_t activation = DTypeBytes(types.activations(device));
  TransformerSizes sizes;
  sizes.hidden = rows * hidden * kFloat;
  sizes.normed = rows * hidden * activation;
  if (std::ranges::any_of(config.layers, &LayerSpec::has_second_norm)) {
    sizes.mlp_normed = sizes.normed;
  }
  const auto writes_branch = [&](const LayerSpec& spec) {
    return spec.writes_branch(limits.has_ranks);
  };
  if (std::ranges::any_of(config.layers, writes_branch)) sizes.branch = rows * hidden * kFloat;
  sizes.qkv = rows * config.qkv_size() * kFloat;
  const auto norms_among_ranks = [&](const LayerSpec& spec) {
    return spec.norms_among_ranks(limits.has_ranks);
  };
  if (std::ranges::any_of(config.layers, norms_among_ranks)) sizes.squares = 2 * rows * kFloat;
  sizes.attended = rows * config.q_size() * activation;
  sizes.gate_up = rows * config.gate_up_size() * kFloat;
  sizes.activated = rows * config.intermediate_size * activation;
  const int64_t lora_rows = std::max<int64_t>(rows, limits.logits_rows_max);
  sizes.lora_h =
      LoraScratchFloats(device, lora_rows * kLoraSlicesMax, limits.lora_rank_max) * kFloat;
  // No kernel of codes has LoRA beside it.
  if (limits.lora_beside && !types.has_codes() && limits.lora_rank_max > 0 &&
      types.adapters == types.operands && GemmRunsLoraBeside(types.adapters, 1, device)) {
    const int64_t columns = std::max<int64_t>({config.gate_up_size(), config.qkv_size(), hidden});
    sizes.lora_delta = std::min<int64_t>(rows, kLoraBesideRowsMax) * columns * kFloat;
    sizes.lora_words = config.head_matrix() * kLoraBesideWords * int64_t{sizeof(uint32_t)};
  }
  sizes.codes_room = CodesRoomBytes(config, types, rows, device);
  sizes.attention_scratch = AttentionScratchBytes(layout, config.num_heads, limits.num_sequences(),
                                                  limits.context_tokens_max, device);
  const int64_t logits_rows = limits.logits_rows_max;
  sizes.logits_rows = logits_rows * int64_t{sizeof(int32_t) + sizeof(LoraSegment)};
  sizes.logits_hidden = logits_rows * hidden * kFloat;
  sizes.logits_normed = logits_rows * hidden * activation;
  sizes.logits = logits_rows * config.vocab_size * kFloat;
  sizes.ropes = RopeTablesBytes(config, limits.context_tokens_max);
  const ForwardBatchLimits batch = BatchLimitsOf(limits, config, layout, device);
  sizes.batch = BatchUpload::BytesOnDevice(batch, device);
  sizes.batch_on_host = BatchUpload::BytesOnHost(batch, device);
  return sizes;
}

}  // namespace graft
