// The backward: layer by layer from the last, each computed again first where its activations were
// not kept.
#include <cstring>

#include "base/check.h"
#include "kernels/attention_backward/attention_backward.h"
#include "kernels/gated_activation_backward/gated_activation_backward.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora_gradient/lora_gradient.h"
#include "kernels/rms_norm_backward/rms_norm_backward.h"
#include "kernels/rope/rope.h"
#include "kernels/virtual_gradient/virtual_gradient.h"
#include "learn/prompt_gradients.h"
#include "learn/training_transformer.h"

namespace graft {

void TrainingTransformer::ZeroGradients() {
  std::memset(d_hidden_.data(), 0, static_cast<size_t>(d_hidden_.bytes()));
}

void TrainingTransformer::BackwardHead(std::span<const int32_t> rows) {
  const auto num_rows = static_cast<int64_t>(rows.size());
  const int64_t n = config_.hidden_size;
  Gemm({.x = logits_.data(),
        .x_stride = config_.vocab_size,
        .m = num_rows,
        .weight = &transposed_head_,
        .y = head_d_normed_.as<float>(),
        .y_stride = n,
        .x_is_fp32 = true},
       stream_);
  BackwardNormed(rows, head_d_normed_.as<float>());
}

void TrainingTransformer::BackwardNormed(std::span<const int32_t> rows, const float* d_normed) {
  const auto num_rows = static_cast<int64_t>(rows.size());
  const int64_t n = config_.hidden_size;
  std::memset(head_d_hidden_.data(), 0, static_cast<size_t>(head_d_hidden_.bytes()));
  RmsNormBackward({.x = head_hidden_.as<float>(),
                   .weight = weights_.final_norm.as<float>(),
                   .d_out = d_normed,
                   .d_x = head_d_hidden_.as<float>(),
                   .num_rows = num_rows,
                   .n = n,
                   .epsilon = config_.rms_norm_epsilon},
                  stream_);
  for (int64_t i = 0; i < num_rows; ++i) {
    const float* from = head_d_hidden_.as<float>() + i * n;
    float* to = d_hidden_.as<float>() + rows[static_cast<size_t>(i)] * n;
    for (int64_t j = 0; j < n; ++j) to[j] += from[j];
  }
}

void TrainingTransformer::Backward() {
  const int32_t first_kept = config_.num_layers - num_kept_layers();
  for (int32_t layer = config_.num_layers - 1; layer >= 0; --layer) {
    Activations& activations = ActivationsOf(layer);
    if (layer < first_kept) ComputeLayer(layer, activations);
    BackwardMlp(layer, activations);
    BackwardAttention(layer, activations);
    Pause();
  }
  AddEmbeddingGradients();
}

// In the order of the sequences, so that a prompt's gradient is the same bits in every batch.
void TrainingTransformer::AddEmbeddingGradients() {
  const int64_t n = config_.hidden_size;
  AddPromptGradients(batch_->embeddings, d_hidden_.as<float>(), n, n, 0);
}

void TrainingTransformer::AddPromptGradients(std::span<const VirtualRun> runs, const float* x,
                                             int64_t n, int64_t stride, int64_t offset) {
  const PromptGradients list = ListPromptGradients(runs, [&](int32_t index) -> float* {
    const AdapterInTraining& adapter = adapters_[static_cast<size_t>(index)];
    return adapter.is_frozen ? nullptr : adapter.prompt->gradients().data();
  });
  VirtualGradient({.items = list.items.data(),
                   .num_items = static_cast<int32_t>(list.items.size()),
                   .num_tokens_max = list.num_tokens_max,
                   .places = list.places.data(),
                   .x = x,
                   .n = n,
                   .gradient_stride = stride,
                   .gradient_offset = offset},
                  stream_);
}

std::vector<AttentionPrefix> TrainingTransformer::PrefixesOf(int32_t layer) {
  std::vector<AttentionPrefix> prefixes;
  if (batch_->keys_values.empty()) return prefixes;
  float* d_next = d_prefixes_.as<float>();
  for (const SequencePrompt& prompt : batch_->prompts) {
    prefixes.emplace_back();
    if (prompt.num_keys_values() == 0) continue;
    CHECK_LE(prompt.num_keys_values(), limits_.prefix_tokens_max);
    const TrainedPrompt& trained = *adapters_[static_cast<size_t>(prompt.adapter)].prompt;
    prefixes.back() = {prompt.num_keys_values(), trained.rounded(layer), trained.columns(), d_next};
    d_next += prompt.num_keys_values() * trained.layer_columns();
  }
  return prefixes;
}

void TrainingTransformer::AddPrefixGradients(int32_t layer) {
  const int64_t n = 2 * config_.kv_size();
  AddPromptGradients(RunsOfPrefixes(*batch_), d_prefixes_.as<float>(), n, config_.num_layers * n,
                     layer * n);
}

void TrainingTransformer::BackwardMlp(int32_t layer, const Activations& activations) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const int32_t num_rows = batch_->num_rows();
  Activate(activations);
  BackwardProduct(ProductOf(layer, LayerProduct::kDown), layer, activated_.as<float>(),
                  d_hidden_.as<float>(), d_activated_.as<float>());
  GatedActivationBackward({.gate_up = activations.gate_up.as<float>(),
                           .d_out = d_activated_.as<float>(),
                           .d_gate_up = d_gate_up_.as<float>(),
                           .num_rows = num_rows,
                           .n = config_.intermediate_size},
                          stream_);
  Normalize(activations.middle.as<float>(), weights.mlp_norm, normed_.as<float>());
  BackwardProduct(ProductOf(layer, LayerProduct::kGateUp), layer, normed_.as<float>(),
                  d_gate_up_.as<float>(), d_normed_.as<float>());
  RmsNormBackward({.x = activations.middle.as<float>(),
                   .weight = weights.mlp_norm.as<float>(),
                   .d_out = d_normed_.as<float>(),
                   .d_x = d_hidden_.as<float>(),
                   .num_rows = num_rows,
                   .n = config_.hidden_size,
                   .epsilon = config_.rms_norm_epsilon},
                  stream_);
}

void TrainingTransformer::BackwardAttention(int32_t layer, const Activations& activations) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const TrainingBatch& batch = *batch_;
  BackwardProduct(ProductOf(layer, LayerProduct::kO), layer, activations.attended.as<float>(),
                  d_hidden_.as<float>(), d_attended_.as<float>());
  const std::vector<AttentionPrefix> prefixes = PrefixesOf(layer);
  AttentionBackward({.row_begin = batch.row_begin.data(),
                     .num_sequences = batch.num_sequences(),
                     .num_heads = config_.num_heads,
                     .num_kv_heads = config_.num_kv_heads,
                     .head_dim = config_.head_dim,
                     .scale = config_.layers[static_cast<size_t>(layer)].attention_scale,
                     .qkv = activations.qkv.as<float>(),
                     .qkv_stride = config_.qkv_size(),
                     .d_out = d_attended_.as<float>(),
                     .d_qkv = d_qkv_.as<float>(),
                     .prefixes = prefixes.empty() ? nullptr : prefixes.data(),
                     .scratch = attention_scratch_.as<float>()},
                    stream_);
  AddPrefixGradients(layer);
  Rope({.x = d_qkv_.as<float>(),
        .x_stride = config_.qkv_size(),
        .num_tokens = batch.num_rows(),
        .num_heads = config_.num_heads + config_.num_kv_heads,
        .head_dim = config_.head_dim,
        .rotary_dim = config_.num_rotary(),
        .positions = batch.positions.data(),
        .cos = ropes_[0].cos(),
        .sin = back_sin_.data()},
       stream_);
  Normalize(hidden(layer), weights.attention_norm, normed_.as<float>());
  // Below the first layer nothing but embeddings is learned.
  const bool goes_on = layer > 0 || !batch.embeddings.empty();
  float* const d_normed = goes_on ? d_normed_.as<float>() : nullptr;
  BackwardProduct(ProductOf(layer, LayerProduct::kQkv), layer, normed_.as<float>(),
                  d_qkv_.as<float>(), d_normed);
  if (d_normed == nullptr) return;
  RmsNormBackward({.x = hidden(layer),
                   .weight = weights.attention_norm.as<float>(),
                   .d_out = d_normed,
                   .d_x = d_hidden_.as<float>(),
                   .num_rows = batch.num_rows(),
                   .n = config_.hidden_size,
                   .epsilon = config_.rms_norm_epsilon},
                  stream_);
}

void TrainingTransformer::BackwardProduct(const Product& product, int32_t layer, const float* x,
                                          const float* d_y, float* d_x) {
  const int64_t k = product.weight.k();
  const int64_t n = product.weight.n();
  if (d_x != nullptr) {
    GemmWeight made;
    if (product.transposed == nullptr) made = product.weight.Transposed(stream_);
    Gemm({.x = d_y,
          .x_stride = n,
          .m = batch_->num_rows(),
          .weight = product.transposed == nullptr ? &made : product.transposed,
          .y = d_x,
          .y_stride = k,
          .x_is_fp32 = true},
         stream_);
  }
  const std::vector<LoraSegment>& segments = batch_->segments;
  if (!segments.empty()) LoraShrink(MakeLoraArgs(segments, product, layer, x, d_x), stream_);
  int64_t column = 0;
  for (int32_t slice = 0; slice < product.num_slices; ++slice) {
    const float* d_slice = d_y + column;
    const float* h = lora_h_.as<float>() + slice * batch_->num_rows() * int64_t{limits_.rank_max};
    if (!segments.empty()) AddGradients(product, layer, slice, LoraSide::kB, h, d_slice, n);
    BackwardSlice(segments, product, layer, slice, x, d_slice, d_x);
    column += product.slice_n[slice];
  }
  column = 0;
  for (int32_t slice = 0; slice < product.num_slices; ++slice) {
    BackwardSlice(batch_->document_segments, product, layer, slice, nullptr, d_y + column, d_x);
    column += product.slice_n[slice];
  }
}

// `x`: null where no matrix gets a gradient.
void TrainingTransformer::BackwardSlice(std::span<const LoraSegment> segments,
                                        const Product& product, int32_t layer, int32_t slice,
                                        const float* x, const float* d_slice, float* d_x) {
  if (segments.empty() || (x == nullptr && d_x == nullptr)) return;
  const int64_t k = product.weight.k();
  LoraArgs back = MakeLoraArgs(segments, product, layer, nullptr, d_x);
  back.matrices =
      swapped_.data() + int64_t{layer} * kLoraModules + static_cast<int64_t>(product.first) + slice;
  back.num_slices = 1;
  back.x = d_slice;
  back.x_stride = product.weight.n();
  back.k = product.slice_n[slice];
  back.h = lora_d_h_.as<float>();
  back.y_stride = k;
  back.slice_begin[0] = 0;
  back.slice_n[0] = k;
  LoraShrink(back, stream_);
  if (x != nullptr) AddGradients(product, layer, slice, LoraSide::kA, back.h, x, k);
  if (d_x != nullptr) LoraExpand(back, stream_);
}

void TrainingTransformer::AddGradients(const Product& product, int32_t layer, int32_t slice,
                                       LoraSide side, const float* h, const float* x,
                                       int64_t x_stride) {
  const auto module = static_cast<LoraModule>(static_cast<int32_t>(product.first) + slice);
  std::vector<LoraGradientSegment> segments;
  int64_t n = 0;
  for (const LoraSegment& segment : batch_->segments) {
    TrainedLora& adapter = *adapters_[static_cast<size_t>(segment.adapter_slot)].lora;
    const TrainedLora::Place place = adapter.place(layer, module, side);
    n = place.n;
    segments.push_back({segment.row_begin, segment.row_end,
                        adapter.gradients().data() + place.begin, adapter.rank(), adapter.scale()});
  }
  LoraGradient(
      {.segments = segments.data(),
       .num_segments = static_cast<int32_t>(segments.size()),
       .products = {{.h = h, .h_stride = limits_.rank_max, .x = x, .x_stride = x_stride, .n = n}},
       .num_products = 1},
      stream_);
}

}  // namespace graft
