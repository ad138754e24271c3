#include "learn/training_transformer.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/check.h"

namespace graft {
namespace {

Status NotTrainable(const std::string& what) {
  return UnimplementedError("training does not cover " + what +
                            "; it covers Llama's layers as Llama, Mistral without a sliding window "
                            "and Qwen2 have them");
}

}  // namespace

Status CheckTrainable(const ModelConfig& config, const Device& device) {
  if (!device.is_cpu() && !kHasCuda) return NotTrainable("a GPU: this binary has no CUDA backend");
  if (HasFusedProjections(config))
    return NotTrainable("fused projections (qkv_proj, gate_up_proj)");
  if (config.logit_cap != 0.0f) return NotTrainable("capped logits (final_logit_softcapping)");
  if (config.scales_embeddings) return NotTrainable("scaled embeddings");
  if (std::ranges::any_of(config.ropes, [](const RopeConfig& rope) {
        return rope.scaling == RopeScaling::kNoRotation;
      })) {
    return NotTrainable("layers that do not rotate (no_rope_layers)");
  }
  if (config.hidden_scale != 1.0f) return NotTrainable("scaled embeddings (embedding_multiplier)");
  if (config.logit_scale != 1.0f) return NotTrainable("scaled logits (logits_scaling)");
  if (config.ropes.size() != 1) return NotTrainable("several ropes");
  for (const LayerSpec& layer : config.layers) {
    if (layer.window > 0) return NotTrainable("a sliding window (sliding_window)");
    if (layer.score_cap != 0.0f) return NotTrainable("capped scores (attn_logit_softcapping)");
    if (layer.qk_norm) return NotTrainable("norms of queries and keys");
    if (layer.output_norms) return NotTrainable("norms behind attention and MLP");
    if (layer.residual_scale != 1.0f) {
      return NotTrainable("scaled residuals (residual_multiplier)");
    }
    if (layer.activation != Activation::kSilu) return NotTrainable("GeGLU");
  }
  return OkStatus();
}

TrainingTransformer::TrainingTransformer(const ModelConfig& config, const ModelWeights& weights,
                                         const TrainingLimits& limits, Stream& stream,
                                         std::function<void()> pause)
    : config_(config),
      weights_(weights),
      limits_(limits),
      stream_(stream),
      pause_(std::move(pause)),
      ropes_(MakeRopeTables(config, config.context_tokens_max, stream, pause_)),
      transposed_head_(weights.lm_head.Transposed(stream, pause_)),
      pool_(TrainingPoolLayout(config, weights.types.operands), NumTrainingPages(limits)) {
  CHECK(stream.device.is_cpu() && CheckTrainable(config, stream.device).ok());
  CHECK(limits.rows_max > 0 && limits.sequences_max > 0 && limits.logits_rows_max > 0);
  const int64_t num_angles = int64_t{config.context_tokens_max} * config.num_rotary() / 2;
  back_sin_.reserve(static_cast<size_t>(num_angles));
  for (int64_t i = 0; i < num_angles; ++i) back_sin_.push_back(-ropes_[0].sin()[i]);
  const int64_t num_transposed = NumLayersWithin(
      limits.transposed_bytes_max, LayerTransposedBytes(config, weights.types.operands), config);
  for (int64_t i = config.num_layers - num_transposed; i < config.num_layers; ++i) {
    const LayerWeights& layer = weights.layers[static_cast<size_t>(i)];
    Pause();
    transposed_.push_back({layer.qkv.Transposed(stream, pause_), layer.o.Transposed(stream, pause_),
                           layer.gate_up.Transposed(stream, pause_),
                           layer.down.Transposed(stream, pause_)});
  }
  const auto floats = [](int64_t rows, int64_t n) {
    return Buffer(rows * n * int64_t{sizeof(float)});
  };
  const int64_t rows = limits.rows_max;
  const int64_t hidden = config.hidden_size;
  for (int32_t i = 0; i <= config.num_layers; ++i) hidden_.push_back(floats(rows, hidden));
  const int64_t num_kept = NumLayersWithin(limits.activation_bytes_max,
                                           LayerActivationBytes(config, limits.rows_max), config);
  for (int64_t i = 0; i < num_kept; ++i) kept_.push_back(MakeActivations());
  if (num_kept < config.num_layers) shared_ = MakeActivations();
  normed_ = floats(rows, hidden);
  activated_ = floats(rows, config.intermediate_size);
  d_hidden_ = floats(rows, hidden);
  d_normed_ = floats(rows, hidden);
  d_activated_ = floats(rows, config.intermediate_size);
  d_gate_up_ = floats(rows, int64_t{2} * config.intermediate_size);
  d_attended_ = floats(rows, config.q_size());
  d_qkv_ = floats(rows, config.qkv_size());
  lora_h_ = floats(rows * kLoraSlicesMax, limits.rank_max);
  lora_d_h_ = floats(rows, limits.rank_max);
  attention_scratch_ =
      floats(AttentionBackwardFloats(limits.rows_max + limits.prefix_tokens_max, config.head_dim,
                                     stream.cpu_threads->num_threads()),
             1);
  d_prefixes_ =
      floats(int64_t{limits.sequences_max} * limits.prefix_tokens_max, 2 * config.kv_size());
  const int64_t head_rows = limits.logits_rows_max;
  for (Buffer* buffer : {&head_hidden_, &head_normed_, &head_d_normed_, &head_d_hidden_}) {
    *buffer = floats(head_rows, hidden);
  }
  logits_ = floats(head_rows, config.vocab_size);
}

TrainingTransformer::Activations TrainingTransformer::MakeActivations() const {
  const auto floats = [&](int64_t n) {
    return Buffer(limits_.rows_max * n * int64_t{sizeof(float)});
  };
  return {floats(config_.qkv_size()), floats(config_.q_size()), floats(config_.hidden_size),
          floats(int64_t{2} * config_.intermediate_size)};
}

TrainingTransformer::Activations& TrainingTransformer::ActivationsOf(int32_t layer) {
  const int32_t first_kept = config_.num_layers - num_kept_layers();
  return layer < first_kept ? shared_ : kept_[static_cast<size_t>(layer - first_kept)];
}

TrainingTransformer::Product TrainingTransformer::ProductOf(int32_t layer,
                                                            LayerProduct product) const {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const int32_t first = config_.num_layers - num_transposed_layers();
  const Transposed* transposed =
      layer < first ? nullptr : &transposed_[static_cast<size_t>(layer - first)];
  const int64_t hidden = config_.hidden_size;
  const int64_t intermediate = config_.intermediate_size;
  switch (product) {
    case LayerProduct::kQkv:
      return {weights.qkv,
              transposed == nullptr ? nullptr : &transposed->qkv,
              weights.qkv_bias,
              LoraModule::kQ,
              3,
              {config_.q_size(), config_.kv_size(), config_.kv_size()}};
    case LayerProduct::kO:
      return {weights.o,
              transposed == nullptr ? nullptr : &transposed->o,
              weights.o_bias,
              LoraModule::kO,
              1,
              {hidden}};
    case LayerProduct::kGateUp:
      return {weights.gate_up,
              transposed == nullptr ? nullptr : &transposed->gate_up,
              weights.gate_up_bias,
              LoraModule::kGate,
              2,
              {intermediate, intermediate}};
    case LayerProduct::kDown:
      return {weights.down,
              transposed == nullptr ? nullptr : &transposed->down,
              weights.down_bias,
              LoraModule::kDown,
              1,
              {hidden}};
  }
  CHECK(false) << "no such product: " << static_cast<int>(product);
  __builtin_unreachable();
}

void TrainingTransformer::CopyAdapters(std::span<const AdapterInTraining> adapters) {
  adapters_.assign(adapters.begin(), adapters.end());
  matrices_.clear();
  swapped_.clear();
  const auto num_matrices = static_cast<size_t>(config_.num_layers) * kLoraModules;
  for (const AdapterInTraining& adapter : adapters) {
    if (adapter.lora == nullptr) {
      matrices_.resize(matrices_.size() + num_matrices);
      swapped_.resize(matrices_.size());
      continue;
    }
    const TrainedLora& lora = *adapter.lora;
    CHECK_LE(lora.rank(), limits_.rank_max);
    matrices_.insert(matrices_.end(), lora.matrices().begin(), lora.matrices().end());
    swapped_.insert(swapped_.end(), lora.swapped().begin(), lora.swapped().end());
  }
}

}  // namespace graft
