// The forward: what Transformer::Layer does, op by op, with the results kept.
#include <cstring>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "kernels/embedding/embedding.h"
#include "kernels/gated_activation/gated_activation.h"
#include "kernels/gemm/gemm.h"
#include "kernels/rms_norm/rms_norm.h"
#include "kernels/rope_kv_write/rope_kv_write.h"
#include "kernels/virtual_embedding/virtual_embedding.h"
#include "kernels/virtual_kv/virtual_kv.h"
#include "learn/training_transformer.h"

namespace graft {

void TrainingTransformer::Forward(const TrainingBatch& batch,
                                  std::span<const AdapterInTraining> adapters,
                                  const Observe& observe) {
  CHECK(batch.num_rows() > 0 && batch.num_rows() <= limits_.rows_max) << batch.num_rows();
  CHECK_LE(batch.num_sequences(), limits_.sequences_max);
  CHECK_LE(batch.num_pages(), pool_.num_pages());
  batch_ = &batch;
  CopyAdapters(adapters);
  Embedding({.table = weights_.embedding.data(),
             .dtype = weights_.types.embeddings,
             .vocab_size = config_.vocab_size,
             .tokens = batch.tokens.data(),
             .out = hidden_[0].as<float>(),
             .num_tokens = batch.num_rows(),
             .n = config_.hidden_size},
            stream_);
  std::vector<VirtualRows> table;
  for (const AdapterInTraining& adapter : adapters_) {
    table.push_back(adapter.prompt == nullptr ? nullptr : adapter.prompt->rows(0));
  }
  VirtualEmbedding({.table = table.data(),
                    .dtype = weights_.types.embeddings,
                    .runs = batch.embeddings.data(),
                    .num_runs = static_cast<int32_t>(batch.embeddings.size()),
                    .run_tokens_max = batch.run_tokens_max,
                    .out = hidden_[0].as<float>(),
                    .n = config_.hidden_size},
                   stream_);
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    Activations& activations = ActivationsOf(layer);
    ComputeLayer(layer, activations);
    if (observe) observe(layer, activations.qkv.as<float>());
    FinishLayer(layer, activations);
    Pause();
  }
}

void TrainingTransformer::ComputeLayer(int32_t layer, Activations& activations) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const auto bytes = static_cast<size_t>(batch_->num_rows()) *
                     static_cast<size_t>(config_.hidden_size) * sizeof(float);
  Normalize(hidden(layer), weights.attention_norm, normed_.as<float>());
  Project(ProductOf(layer, LayerProduct::kQkv), layer, normed_.as<float>(),
          activations.qkv.as<float>(), false);
  AttendSequences(layer, activations);
  std::memcpy(activations.middle.data(), hidden(layer), bytes);
  Project(ProductOf(layer, LayerProduct::kO), layer, activations.attended.as<float>(),
          activations.middle.as<float>(), true);
  Normalize(activations.middle.as<float>(), weights.mlp_norm, normed_.as<float>());
  Project(ProductOf(layer, LayerProduct::kGateUp), layer, normed_.as<float>(),
          activations.gate_up.as<float>(), false);
}

void TrainingTransformer::FinishLayer(int32_t layer, const Activations& activations) {
  Activate(activations);
  float* next = hidden_[static_cast<size_t>(layer) + 1].as<float>();
  std::memcpy(next, activations.middle.data(),
              static_cast<size_t>(batch_->num_rows()) * static_cast<size_t>(config_.hidden_size) *
                  sizeof(float));
  Project(ProductOf(layer, LayerProduct::kDown), layer, activated_.as<float>(), next, true);
}

void TrainingTransformer::Normalize(const float* x, const Buffer& weight, float* out) {
  RmsNorm({.x = x,
           .x_stride = config_.hidden_size,
           .weight = weight.as<float>(),
           .out = out,
           .out_stride = config_.hidden_size,
           .num_tokens = batch_->num_rows(),
           .n = config_.hidden_size,
           .epsilon = config_.rms_norm_epsilon},
          stream_);
}

void TrainingTransformer::Activate(const Activations& activations) {
  GatedActivation({.gate_up = activations.gate_up.as<float>(),
                   .out = activated_.data(),
                   .num_tokens = batch_->num_rows(),
                   .n = config_.intermediate_size},
                  stream_);
}

// Keys and values in front of sequences, into their first pages.
void TrainingTransformer::PlaceKeysAndValues(int32_t layer) {
  const TrainingBatch& batch = *batch_;
  if (batch.keys_values.empty()) return;
  std::vector<VirtualRows> table;
  for (const AdapterInTraining& adapter : adapters_) {
    const bool has_any =
        adapter.prompt != nullptr && adapter.prompt->kind() == VirtualTokenKind::kKeysValues;
    table.push_back(has_any ? adapter.prompt->rows(layer) : nullptr);
  }
  VirtualKv({.layout = pool_.layout(),
             .pool = pool_.data(),
             .table = table.data(),
             .runs = batch.keys_values.data(),
             .num_runs = static_cast<int32_t>(batch.keys_values.size()),
             .run_tokens_max = batch.run_tokens_max,
             .pages = batch.pages.data()},
            stream_);
}

void TrainingTransformer::AttendSequences(int32_t layer, Activations& activations) {
  const TrainingBatch& batch = *batch_;
  PlaceKeysAndValues(layer);
  const LayerSpec& spec = config_.layers[static_cast<size_t>(layer)];
  RopeKvWrite({.qkv = activations.qkv.as<float>(),
               .row_stride = config_.qkv_size(),
               .num_rows = batch.num_rows(),
               .num_q_heads = config_.num_heads,
               .norm_epsilon = config_.rms_norm_epsilon,
               .positions = batch.positions.data(),
               .rotary_dim = config_.num_rotary(),
               .cos = ropes_[0].cos(),
               .sin = ropes_[0].sin(),
               .layout = pool_.layout(),
               .pool = pool_.data(),
               .row_page = batch.row_page.data(),
               .row_slot = batch.row_slot.data()},
              stream_);
  Attention({.layout = pool_.layout(),
             .pool = pool_.data(),
             .pages = batch.pages.data(),
             .page_begin = batch.page_begin.data(),
             .row_begin = batch.row_begin.data(),
             .kv_tokens = batch.kv_tokens.data(),
             .num_sequences = batch.num_sequences(),
             .num_heads = config_.num_heads,
             .q = activations.qkv.as<float>(),
             .q_stride = config_.qkv_size(),
             .out = activations.attended.data(),
             .scale = spec.attention_scale,
             .num_given = batch.num_sequences()},
            stream_);
  RoundKeysAndValues(activations.qkv.as<float>());
}

// To what attention read in the pages.
void TrainingTransformer::RoundKeysAndValues(float* qkv) {
  const DType dtype = pool_.layout().dtype;
  if (dtype == DType::kF32) return;
  const int64_t n = 2 * config_.kv_size();
  rounded_.resize(static_cast<size_t>(n * DTypeBytes(dtype)));
  for (int32_t row = 0; row < batch_->num_rows(); ++row) {
    float* keys = qkv + row * config_.qkv_size() + config_.q_size();
    ConvertElements(DType::kF32, keys, dtype, rounded_.data(), n);
    ConvertElements(dtype, rounded_.data(), DType::kF32, keys, n);
  }
}

LoraArgs TrainingTransformer::MakeLoraArgs(std::span<const LoraSegment> segments,
                                           const Product& product, int32_t layer, const float* x,
                                           float* y) const {
  LoraArgs args{.dtype = weights_.types.adapters,
                .segments = segments.data(),
                .num_segments = static_cast<int32_t>(segments.size()),
                .matrices = matrices_.data() + int64_t{layer} * kLoraModules +
                            static_cast<int64_t>(product.first),
                .matrices_stride = int64_t{config_.num_layers} * kLoraModules,
                .num_slices = product.num_slices,
                .x = x,
                .x_stride = product.weight.k(),
                .k = product.weight.k(),
                .h = const_cast<float*>(lora_h_.as<float>()),
                .h_stride = limits_.rank_max,
                .num_rows = batch_->num_rows(),
                .y = y,
                .y_stride = product.weight.n(),
                .x_is_fp32 = true};
  int64_t column = 0;
  for (int32_t slice = 0; slice < product.num_slices; ++slice) {
    args.slice_begin[slice] = column;
    args.slice_n[slice] = product.slice_n[slice];
    column += product.slice_n[slice];
  }
  return args;
}

void TrainingTransformer::Project(const Product& product, int32_t layer, const float* x, float* y,
                                  bool accumulate) {
  Gemm({.x = x,
        .x_stride = product.weight.k(),
        .m = batch_->num_rows(),
        .weight = &product.weight,
        .y = y,
        .y_stride = product.weight.n(),
        .epilogue = {.bias = product.bias.as<float>(), .accumulate = accumulate},
        .x_is_fp32 = true},
       stream_);
  for (const auto* segments : {&batch_->segments, &batch_->document_segments}) {
    if (!segments->empty()) Lora(MakeLoraArgs(*segments, product, layer, x, y), stream_);
  }
}

const float* TrainingTransformer::ComputeNormed(std::span<const int32_t> rows) {
  CHECK_LE(rows.size(), static_cast<size_t>(limits_.logits_rows_max));
  const auto num_rows = static_cast<int64_t>(rows.size());
  const int64_t hidden_size = config_.hidden_size;
  // Picking rows is what Embedding does, with the hidden states for its table.
  Embedding({.table = hidden(config_.num_layers),
             .dtype = DType::kF32,
             .vocab_size = batch_->num_rows(),
             .tokens = rows.data(),
             .out = head_hidden_.as<float>(),
             .num_tokens = num_rows,
             .n = hidden_size},
            stream_);
  RmsNorm({.x = head_hidden_.as<float>(),
           .x_stride = hidden_size,
           .weight = weights_.final_norm.as<float>(),
           .out = head_normed_.data(),
           .out_stride = hidden_size,
           .num_tokens = num_rows,
           .n = hidden_size,
           .epsilon = config_.rms_norm_epsilon},
          stream_);
  return head_normed_.as<float>();
}

float* TrainingTransformer::ComputeHead(std::span<const int32_t> rows) {
  Gemm({.x = ComputeNormed(rows),
        .x_stride = config_.hidden_size,
        .m = static_cast<int64_t>(rows.size()),
        .weight = &weights_.lm_head,
        .y = logits_.as<float>(),
        .y_stride = config_.vocab_size,
        .x_is_fp32 = true},
       stream_);
  return logits_.as<float>();
}

}  // namespace graft
