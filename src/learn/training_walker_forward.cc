// The forward: the server's kernels in the server's order, with a prompt's way of adding LoRA.
#include <algorithm>

#include "kernels/gated_activation/gated_activation.h"
#include "kernels/token_loss/token_loss.h"
#include "learn/training_walker.h"
#include "tensor/cuda_memory.h"

namespace graft {

void TrainingWalker::Forward() {
  const int64_t bytes = batch_.num_rows * int64_t{config_.hidden_size} * int64_t{sizeof(float)};
  embedding_.Run(Step());
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    if (layer < first_kept()) {
      CopyOnDevice(inputs_[static_cast<size_t>(layer)].data(), context_.scratch.hidden.data(),
                   bytes, stream_);
    }
    ComputeLayer(layer, ActivationsOf(layer));
    FinishLayer(layer, ActivationsOf(layer));
    pieces_.AfterLayer();
  }
}

void TrainingWalker::ComputeLayer(int32_t layer, Activations& activations) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  Normalize(weights.attention_norm, activations.input);
  Project(ProductOf(layer, LayerProduct::kQkv),
          {.x = normed_.data(), .target = {context_.scratch.qkv.as<float>()}});
  pieces_.BeforeWork(AttentionFlop(layer, kForwardEffort));
  PlaceKeysAndValues(layer);
  const AttentionKept kept = activations.attention();
  attention_[static_cast<size_t>(layer)].Attend(Step(), &kept);
  ProjectBack(ProductOf(layer, LayerProduct::kO), activations.attended.data(),
              weights.attention_output_norm, activations.attention_branch);
  Normalize(weights.mlp_norm, activations.middle);
  ProjectGateUp(layer, activations);
}

void TrainingWalker::FinishLayer(int32_t layer, Activations& activations) {
  ProjectBack(ProductOf(layer, LayerProduct::kDown), activated_.data(),
              weights_.layers[static_cast<size_t>(layer)].mlp_output_norm, activations.mlp_branch);
}

void TrainingWalker::ProjectBack(const Product& product, const void* x, const Buffer& norm,
                                 Buffer& branch) {
  const LayerSpec& layer = spec(product.layer);
  if (!layer.output_norms) {
    return Project(product, {.x = x, .target = {hidden(), true, layer.residual_scale}});
  }
  auto* const y = d_normed_.as<float>();  // the backward's room
  Project(product, {.x = x, .target = {y}});
  NormOf(norm).RunAndAdd(y, batch_.num_rows, hidden(), stream_, branch.data(), dtype_);
}

void TrainingWalker::Normalize(const Buffer& weight, Buffer& copy) {
  NormOf(weight).Run(hidden(), batch_.num_rows, dtype_, normed_.data(), stream_, copy.data());
}

void TrainingWalker::ProjectGateUp(int32_t layer, Activations& activations) {
  Projection::Call call{
      .x = normed_.data(), .target = {gate_up_.as<float>()}, .activation = spec(layer).activation};
  // What documents add comes between the product and what follows.
  const bool is_whole = batch_.num_document_segments == 0;
  if (is_whole) {
    call.activated = activated_.data();
    call.kept = activations.gate_up.data();
  }
  Project(ProductOf(layer, LayerProduct::kGateUp), call);
  if (!is_whole) Activate(layer, activations);
}

void TrainingWalker::Activate(int32_t layer, Activations& activations) {
  GatedActivation({.activation = spec(layer).activation,
                   .gate_up = gate_up_.as<float>(),
                   .out = activated_.data(),
                   .out_dtype = dtype_,
                   .num_tokens = batch_.num_rows,
                   .n = config_.intermediate_size,
                   .copy = activations.gate_up.data()},
                  stream_);
}

LoraArgs TrainingWalker::ArgsOfLora(const Product& product, const void* x, float* y) const {
  return MakeLoraArgs(
      product.targets, product.weight,
      {.dtype = weights_.types.adapters,
       .segments = batch_.segments,
       .num_segments = batch_.num_segments,
       .matrices = matrices_.as<LoraMatrix>() + int64_t{product.layer} * kLoraModules +
                   static_cast<int64_t>(product.targets.first),
       .matrices_stride = int64_t{config_.num_layers} * kLoraModules,
       .x = x,
       .h = const_cast<float*>(context_.scratch.lora_h.as<float>()),
       .h_stride = limits_.rank_max,
       .num_rows = batch_.num_rows,
       .y = y,
       .x_is_fp32 = dtype_ == DType::kF32});
}

void TrainingWalker::Project(const Product& product, const Projection::Call& all) {
  for (const Part& part : PartsOf(product)) {
    pieces_.BeforeWork(FlopOf(product.weight, part.num_rows));
    product.projection.Run(OfPart(all, product, part), StepOf(part));
    if (learns_ && part.num_segments > 0) RoundH(product, part);
  }
  AddDocuments(product, all.x, all.target);
}

void TrainingWalker::RoundH(const Product& product, const Part& part) {
  const int64_t slice_floats = int64_t{part.num_rows} * limits_.rank_max;
  LoraGradientRound({.h = context_.scratch.lora_h.as<float>(),
                     .h_stride = limits_.rank_max,
                     .h_slice = slice_floats,
                     .num_slices = product.targets.count,
                     .num_parts = LoraPartsOf(stream_.device),
                     .part = product.targets.count * slice_floats,
                     .rank_max = limits_.rank_max,
                     .num_rows = part.num_rows,
                     .dtype = dtype_,
                     .out = RankRows(HOf(product), product, part)},
                    stream_);
}

void* TrainingWalker::RankRows(void* h, const Product& product, const Part& part) const {
  const int64_t row_bytes = product.targets.count * RankStride() * DTypeBytes(dtype_);
  return static_cast<char*>(h) + part.row_begin * row_bytes;
}

void* TrainingWalker::HOf(const Product& product) {
  const int64_t matrix =
      int64_t{product.layer} * kLoraModules + static_cast<int64_t>(product.targets.first);
  return rounded_h_.as<char>() + matrix * limits_.rows_max * RankStride() * DTypeBytes(dtype_);
}

// In parts, so that logits need little room. With `backward` the residual stream's gradient.
void TrainingWalker::RunHead(bool backward) {
  const int64_t vocab = config_.vocab_size;
  float* const logits = context_.scratch.logits.as<float>();
  for (int32_t begin = 0; begin < batch_.num_targets; begin += limits_.logits_rows_max) {
    const int32_t num_rows = std::min(limits_.logits_rows_max, batch_.num_targets - begin);
    const std::span rows(batch_.rows + begin, static_cast<size_t>(num_rows));
    pieces_.BeforeWork(FlopOf(weights_.lm_head, num_rows));
    head_.Run(rows, batch_.num_rows, Step(), head_input_.data());
    const int64_t choices = int64_t{begin} * batch_.num_choices;
    pieces_.BeforeBytes(num_rows * vocab * (2 * int64_t{sizeof(float)} + DTypeBytes(dtype_)));
    void* const d_logits = dtype_ == DType::kF32 ? nullptr : d_logits_.data();
    TokenLoss({.logits = logits,
               .num_rows = num_rows,
               .vocab_size = vocab,
               .num_choices = batch_.num_choices,
               .ids = batch_.ids + choices,
               .probabilities = batch_.probabilities + choices,
               .weights = batch_.weights + begin,
               .losses = losses_.as<double>() + begin,
               .logit_scale = config_.logit_scale,
               .logit_cap = config_.logit_cap,
               .d_logits = d_logits,
               .d_dtype = dtype_},
              stream_);
    if (backward) {
      pieces_.BeforeWork(FlopOf(weights_.lm_head, num_rows));
      head_.Back({.rows = rows,
                  .kept = head_input_.data(),
                  .d_logits = d_logits == nullptr ? logits : d_logits,
                  .words = transposed_.ArgsOfHead(),
                  .d_normed = head_d_normed_.as<float>(),
                  .d_hidden = d_hidden_.as<float>(),
                  .d_hidden_copy = d_hidden_copy_.data(),
                  .copy_scale = ResidualScaleOf(config_.num_layers - 1)},
                 stream_);
    }
    pieces_.PauseCpu();
  }
}

}  // namespace graft
