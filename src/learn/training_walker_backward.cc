// The backward: layer by layer from the last, each computed again first where its activations were
// not kept.
#include "base/check.h"
#include "kernels/gated_activation_backward/gated_activation_backward.h"
#include "kernels/gemm/gemm.h"
#include "learn/training_walker.h"
#include "tensor/cuda_memory.h"

namespace graft {

void TrainingWalker::Backward() {
  const int64_t bytes = batch_.num_rows * int64_t{config_.hidden_size} * int64_t{sizeof(float)};
  for (int32_t layer = config_.num_layers - 1; layer >= 0; --layer) {
    Activations& activations = ActivationsOf(layer);
    if (layer < first_kept()) {
      CopyOnDevice(context_.scratch.hidden.data(), inputs_[static_cast<size_t>(layer)].data(),
                   bytes, stream_);
      ComputeLayer(layer, activations);
      if (spec(layer).output_norms) FinishLayer(layer, activations);  // for what the norm read
    }
    BackwardMlp(layer, activations);
    BackwardAttention(layer, activations);
    if (layer > 0) pieces_.AfterLayer();
  }
  pieces_.PauseCpu();
  AddPromptGradients(batch_.embeddings, d_hidden_, config_.hidden_size, config_.hidden_size, 0,
                     config_.hidden_scale);
}

// Gradients of matrices come after those of inputs: what they need beside is then there.
void TrainingWalker::BackwardMlp(int32_t layer, Activations& activations) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const Product down = ProductOf(layer, LayerProduct::kDown);
  const Product gate_up = ProductOf(layer, LayerProduct::kGateUp);
  float* const d_activated = gate_up_.as<float>();  // the forward's room, half of it
  const void* const d_branch =
      BranchGradient(layer, weights.mlp_output_norm, activations.mlp_branch);
  const DType d_dtype = BackwardInput(down, d_branch, d_activated);
  pieces_.BeforeBytes(6 * batch_.num_rows * int64_t{config_.intermediate_size} *
                      DTypeBytes(dtype_));
  GatedActivationBackward({.activation = spec(layer).activation,
                           .dtype = dtype_,
                           .gate_up = activations.gate_up.data(),
                           .d_out = d_activated,
                           .d_dtype = d_dtype,
                           .d_gate_up = d_gate_up_.data(),
                           .num_rows = batch_.num_rows,
                           .n = config_.intermediate_size,
                           .activated = activated_.data()},
                          stream_);
  AddGradients(down, activated_.data(), d_branch);
  BackwardNorm(activations.middle, weights.mlp_norm, true,
               BackwardInput(gate_up, d_gate_up_.data(), d_normed_.data(), spec(layer).input_norms),
               ResidualScaleOf(layer));
  AddGradients(gate_up, normed_.data(), d_gate_up_.data());
}

void TrainingWalker::BackwardAttention(int32_t layer, Activations& activations) {
  const LayerWeights& weights = weights_.layers[static_cast<size_t>(layer)];
  const Product o = ProductOf(layer, LayerProduct::kO);
  const Product qkv = ProductOf(layer, LayerProduct::kQkv);
  const void* const d_branch =
      BranchGradient(layer, weights.attention_output_norm, activations.attention_branch);
  const DType d_dtype = BackwardInput(o, d_branch, d_attended_.data());
  AddGradients(o, activations.attended.data(), d_branch);
  pieces_.BeforeWork(AttentionFlop(layer, kBackwardEffort));
  attention_[static_cast<size_t>(layer)].Back(
      {.kept = activations.attention(),
       .d_attended = d_attended_.data(),
       .d_dtype = d_dtype,
       .d_qkv = d_qkv_.data(),
       .prefixes = PrefixesOf(layer),
       .back_sin = back_sins_[static_cast<size_t>(spec(layer).rope)].as<float>(),
       .scratch = backward_scratch_.as<float>()},
      Step());
  const int64_t kv_columns = int64_t{2} * config_.kv_size();
  AddPromptGradients(batch_.keys_values, d_prefixes_, kv_columns, config_.num_layers * kv_columns,
                     layer * kv_columns);
  // Below the first layer nothing but embeddings is learned.
  const bool has_below = layer > 0 || !batch_.arrays.virtual_embeddings.empty();
  BackwardNorm(activations.input, weights.attention_norm, has_below,
               BackwardInput(qkv, d_qkv_.data(), has_below ? d_normed_.data() : nullptr,
                             spec(layer).input_norms),
               ResidualScaleOf(layer - 1));
  AddGradients(qkv, normed_.data(), d_qkv_.data());
}

const void* TrainingWalker::BranchGradient(int32_t layer, const Buffer& norm, Buffer& branch) {
  if (!spec(layer).output_norms) return d_hidden();
  // In the copy's room, which only products of layers without such norms read.
  NormOf(norm).Back({.kept = branch.data(),
                     .dtype = dtype_,
                     .d_out = d_hidden_.data(),
                     .d_x_copy = d_hidden_copy_.data(),
                     .num_rows = batch_.num_rows},
                    stream_);
  return d_hidden_copy_.data();
}

// Of d_normed_, unless there is no gradient; and normed_ again.
void TrainingWalker::BackwardNorm(const Buffer& x, const Buffer& weight, bool has_gradient,
                                  DType d_dtype, float copy_scale) {
  NormOf(weight).Back({.kept = x.data(),
                       .dtype = dtype_,
                       .d_out = has_gradient ? d_normed_.data() : nullptr,
                       .d_dtype = d_dtype,
                       .d_x = d_hidden_.as<float>(),
                       .d_x_copy = d_hidden_copy_.data(),
                       .copy_scale = copy_scale,
                       .normed = normed_.data(),
                       .num_rows = batch_.num_rows},
                      stream_);
}

// LoRA with A and B in each other's place takes the gradient of a slice of y to that of x. Slices'
// h lie side by side, as if they were ranks of one matrix.
LoraArgs TrainingWalker::MakeBackArgs(const Product& product, int32_t slice, const void* d_y,
                                      float* d_x, bool stacked) const {
  const ProductTargets& targets = product.targets;
  LoraArgs args = ArgsOfLora(product, d_y, d_x);
  args.x = Columns(d_y, args.slice_begin[slice]);
  const Buffer& matrices = stacked ? stacked_ : swapped_;
  args.matrices = matrices.as<LoraMatrix>() + int64_t{product.layer} * kLoraModules +
                  static_cast<int64_t>(targets.first) + slice;
  args.num_slices = 1;
  args.x_stride = product.weight.n();
  args.k = targets.n[slice];
  args.h = const_cast<float*>(lora_d_h_.as<float>()) + slice * limits_.rank_max;
  args.h_stride = int64_t{targets.count} * limits_.rank_max;
  args.y_stride = product.weight.k();
  args.slice_begin[0] = 0;
  args.slice_n[0] = product.weight.k();
  return args;
}

DType TrainingWalker::BackwardInput(const Product& product, const void* d_y, void* d_x,
                                    bool may_round) {
  const int32_t slices = product.targets.count;
  const bool is_one = slices == 1;
  // LoRA joins the product, unless there are several slices of adapters of several ranks, which
  // cannot lie side by side: they follow it, one after the other.
  const bool joins = d_x != nullptr && batch_.num_segments > 0 && (is_one || can_stack_);
  auto* const y = static_cast<float*>(d_x);
  const bool rounds = joins && transposed_.are_read_transposed() && can_round_ && may_round;
  const bool in_parts = d_x != nullptr && (joins || batch_.num_segments == 0);
  GemmArgs all;
  if (d_x != nullptr) all = transposed_.ArgsOf(product.layer, product.which);
  all.x = d_y;
  all.x_stride = product.weight.n();
  all.y = y;
  all.y_stride = product.weight.k();
  all.x_is_fp32 = dtype_ == DType::kF32;
  all.epilogue.lora_place = lora_place_;
  if (rounds) all.epilogue.rounded = d_x;
  for (const Part& part : in_parts ? PartsOf(product) : std::span<const Part>(&whole_, 1)) {
    pieces_.BeforeWork(FlopOf(product.weight, part.num_rows));
    LoraArgs joined = OfPart(MakeBackArgs(product, 0, d_y, y, !is_one), part);
    joined.precedes_product = joins && is_one && lora_place_ == LoraPlace::kInside;
    for (int32_t slice = 0; slice < slices && part.num_segments > 0; ++slice) {
      LoraShrink(is_one ? joined : OfPart(MakeBackArgs(product, slice, d_y, y), part), stream_);
    }
    if (d_x != nullptr) {
      GemmArgs gemm = OfPart(all, part);
      if (joins && part.num_segments > 0) gemm.epilogue.lora = &joined;
      Gemm(gemm, stream_);
    }
    if (part.num_segments > 0) RoundBackH(product, part);
  }
  if (d_x == nullptr) return DType::kF32;
  if (rounds) return dtype_;
  for (int32_t slice = 0; slice < slices && !joins; ++slice) {
    if (batch_.num_segments > 0) LoraExpand(MakeBackArgs(product, slice, d_y, y), stream_);
  }
  AddDocumentsBack(product, d_y, y);
  return DType::kF32;
}

void TrainingWalker::RoundBackH(const Product& product, const Part& part) {
  const int32_t slices = product.targets.count;
  LoraGradientRound({.h = lora_d_h_.as<float>(),
                     .h_stride = int64_t{slices} * limits_.rank_max,
                     .h_slice = limits_.rank_max,
                     .num_slices = slices,
                     .num_parts = LoraPartsOf(stream_.device),
                     .part = int64_t{slices} * part.num_rows * limits_.rank_max,
                     .rank_max = limits_.rank_max,
                     .num_rows = part.num_rows,
                     .dtype = dtype_,
                     .out = RankRows(rounded_d_h_.data(), product, part)},
                    stream_);
}

// B's of a slice has a gradient of y of its own, A's all share x.
void TrainingWalker::AddGradients(const Product& product, const void* x, const void* d_y) {
  if (batch_.num_segments == 0) return;
  const ProductTargets& targets = product.targets;
  const int32_t slices = targets.count;
  pieces_.BeforeBytes(batch_.num_rows * (product.weight.k() + product.weight.n()) *
                      DTypeBytes(dtype_));
  LoraGradientArgs args{.segments = batch_.gradient_segments,
                        .num_segments = batch_.num_gradient_segments,
                        .num_products = slices + 1,
                        .dtype = dtype_,
                        .rank_max = limits_.rank_max,
                        .num_rows = batch_.num_rows,
                        .scratch = gradient_scratch_.as<float>(),
                        .counters = gradient_counters_.as<uint32_t>()};
  const LoraGradientProduct all{.h = rounded_d_h_.data(),
                                .h_stride = slices * RankStride(),
                                .h_matrix = RankStride(),
                                .x = x,
                                .x_stride = product.weight.k(),
                                .n = product.weight.k(),
                                .num_matrices = slices};
  args.products[slices] = all;
  int64_t column = 0;
  for (int32_t slice = 0; slice < slices; ++slice) {
    const auto module = static_cast<LoraModule>(static_cast<int32_t>(targets.first) + slice);
    args.products[slices].rank_offset[slice] = RankOffset(product.layer, module, LoraSide::kA);
    args.products[slice] = {.h = Columns(HOf(product), slice * RankStride()),
                            .h_stride = all.h_stride,
                            .x = Columns(d_y, column),
                            .x_stride = product.weight.n(),
                            .n = targets.n[slice],
                            .rank_offset = {RankOffset(product.layer, module, LoraSide::kB)}};
    column += targets.n[slice];
  }
  LoraGradient(args, stream_);
}

// All adapters' matrices lie in one order, each as many times further on as its rank says.
int64_t TrainingWalker::RankOffset(int32_t layer, LoraModule module, LoraSide side) const {
  int64_t offset = 0, layer_columns = 0;
  for (const LoraModule other : kAllLoraModules) {
    const LoraModuleShape shape = ShapeOfLoraModule(config_, other);
    layer_columns += shape.in + shape.out;
    if (other < module) offset += shape.in + shape.out;
  }
  if (side == LoraSide::kB) offset += ShapeOfLoraModule(config_, module).in;
  return layer * layer_columns + offset;
}

}  // namespace graft
