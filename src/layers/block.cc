#include "layers/block.h"

#include "base/check.h"
#include "kernels/scaled_add/scaled_add.h"

namespace graft {
namespace {

Norm NormOf(const LayerContext& context, const Buffer& weight) {
  return {weight, context.shape.hidden_size, context.shape.rms_norm_epsilon, context.shape.norm};
}

std::optional<Norm> OutputNormOf(const LayerContext& context, const LayerSpec& spec,
                                 const Buffer& weight) {
  if (!spec.output_norms) return std::nullopt;
  return NormOf(context, weight);
}

}  // namespace

Block::Block(LayerContext& context, int32_t layer, int32_t kv_layer, const LayerSpec& spec,
             const LayerWeights& weights, const RopeAngles& rope)
    : context_(context),
      residual_scale_(spec.residual_scale),
      parallel_(spec.parallel),
      has_second_norm_(spec.has_second_norm()),
      attention_norm_(NormOf(context, weights.attention_norm)),
      attention_(context, layer, kv_layer, spec, weights, rope),
      attention_output_norm_(OutputNormOf(context, spec, weights.attention_output_norm)),
      mlp_norm_(NormOf(context, weights.mlp_norm)),
      mlp_(context, layer, spec, weights),
      mlp_output_norm_(OutputNormOf(context, spec, weights.mlp_output_norm)) {
  CHECK(!spec.output_norms || spec.residual_scale == 1.0f) << "norms undo scales";
  CHECK(!spec.parallel || !spec.has_branch()) << "what is added in parallel is added as it is";
  CHECK(!spec.parallel || spec.input_norms) << "both read x before either adds to it";
}

void Block::Run(const LayerStep& step, const LayerKept* kept) const {
  RunToActivation(step, kept);
  Finish(step, kept);
}

void Block::RunAgain(const LayerStep& step, const LayerKept& kept) const {
  RunToActivation(step, &kept);
  if (mlp_output_norm_.has_value()) Finish(step, &kept);  // for what the norm read
}

const void* Block::NormalizeBeside(const void* normed, const LayerStep& step) const {
  if (!has_second_norm_) return normed;
  LayerScratch& scratch = context_.scratch;
  // Parallel layers need no branch, for which a step that learns has room.
  void* const second = (step.learning == nullptr ? scratch.mlp_normed : scratch.branch).data();
  mlp_norm_.Run(scratch.hidden.as<float>(), step.num_rows(), context_.activations, second,
                step.stream);
  return second;
}

void Block::RunToActivation(const LayerStep& step, const LayerKept* kept) const {
  const LayerKept keep = kept == nullptr ? LayerKept() : *kept;
  const void* const normed = Normalize(attention_norm_, step, keep.input);
  // In parallel both norms read x before attention adds to it.
  const void* const beside = parallel_ ? NormalizeBeside(normed, step) : nullptr;
  attention_.Run(normed, TargetOf(attention_output_norm_), step,
                 kept == nullptr ? nullptr : &keep.attention);
  AddBranch(attention_output_norm_, step, keep.attention_branch);
  mlp_.Activate(parallel_ ? beside : Normalize(mlp_norm_, step, keep.middle), step, keep.gate_up);
}

void Block::Finish(const LayerStep& step, const LayerKept* kept) const {
  mlp_.Finish(TargetOf(mlp_output_norm_), step);
  AddBranch(mlp_output_norm_, step, kept == nullptr ? nullptr : kept->mlp_branch);
}

void Block::Back(const BackCall& call, const LayerStep& step) const {
  if (parallel_) return BackInParallel(call, step);
  const LayerKept& kept = call.kept;
  void* d_x = context_.scratch.branch.data();
  DType d_dtype = mlp_.Back(kept.gate_up, BackToBranch(mlp_output_norm_, kept.mlp_branch, step),
                            d_x, mlp_norm_.is_there(), step);
  mlp_.AddGradients(BackToStream({mlp_norm_, kept.middle, d_x, d_dtype}, residual_scale_, step),
                    step);
  if (!call.has_below) d_x = nullptr;
  d_dtype =
      attention_.Back({.kept = kept.attention,
                       .d_y = BackToBranch(attention_output_norm_, kept.attention_branch, step),
                       .d_x = d_x,
                       .may_round = attention_norm_.is_there(),
                       .prefixes = call.prefixes,
                       .memory = call.memory},
                      step);
  attention_.AddGradients(
      BackToStream({attention_norm_, kept.input, d_x, d_dtype}, call.copy_scale, step), step);
}

// Both read the stream's gradient before either adds to it. Each one's gradient goes through its
// norm by itself, also where that is one norm: a norm's backward is linear.
void Block::BackInParallel(const BackCall& call, const LayerStep& step) const {
  const LayerKept& kept = call.kept;
  const Norm& mlp_norm = has_second_norm_ ? mlp_norm_ : attention_norm_;
  const void* const d_y = step.learning->room.stream_gradient();
  // The forward's stream is what no backward reads.
  void* const d_mlp = call.has_below ? context_.scratch.hidden.data() : nullptr;
  void* const d_attention = call.has_below ? context_.scratch.branch.data() : nullptr;
  const DType mlp_dtype = mlp_.Back(kept.gate_up, d_y, d_mlp, true, step);
  mlp_.AddGradients(BackToStream({mlp_norm, kept.input}, call.copy_scale, step), step);
  const DType attention_dtype = attention_.Back({.kept = kept.attention,
                                                 .d_y = d_y,
                                                 .d_x = d_attention,
                                                 .prefixes = call.prefixes,
                                                 .memory = call.memory},
                                                step);
  attention_.AddGradients(BackToStream({attention_norm_, kept.input, d_attention, attention_dtype},
                                       call.copy_scale, step),
                          step);
  if (!call.has_below) return;
  BackToStream({mlp_norm, kept.input, d_mlp, mlp_dtype}, call.copy_scale, step);
}

const void* Block::BackToBranch(const std::optional<Norm>& output_norm, const void* kept,
                                const LayerStep& step) const {
  BackScratch& room = step.learning->room;
  if (!output_norm.has_value()) return room.stream_gradient();
  // In the copy's room, which only products of layers without such norms read.
  output_norm->Back({.kept = kept,
                     .dtype = context_.activations,
                     .d_out = room.d_hidden.data(),
                     .d_x_copy = room.d_hidden_copy.data(),
                     .num_rows = step.num_rows()},
                    step.stream);
  return room.d_hidden_copy.data();
}

const void* Block::BackToStream(const NormedGradient& gradient, float copy_scale,
                                const LayerStep& step) const {
  BackScratch& room = step.learning->room;
  LayerScratch& scratch = context_.scratch;
  const Norm& norm = gradient.norm;
  norm.Back({.kept = gradient.kept,
             .dtype = context_.activations,
             .d_out = gradient.d_out,
             .d_dtype = gradient.d_dtype,
             .d_x = room.d_hidden.as<float>(),
             .d_x_copy = room.d_hidden_copy.data(),
             .copy_scale = copy_scale,
             .normed = norm.is_there() ? scratch.normed.data() : nullptr,
             .num_rows = step.num_rows()},
            step.stream);
  return norm.is_there() ? scratch.normed.data() : gradient.kept;
}

const void* Block::Normalize(const Norm& norm, const LayerStep& step, void* kept) const {
  LayerScratch& scratch = context_.scratch;
  const bool is_stream = !norm.is_there() && context_.activations == DType::kF32;
  void* const normed = is_stream ? nullptr : scratch.normed.data();
  norm.Run(scratch.hidden.as<float>(), step.num_rows(), context_.activations, normed, step.stream,
           kept);
  return is_stream ? scratch.hidden.data() : normed;
}

bool Block::HasBranch(const std::optional<Norm>& output_norm) const {
  return output_norm.has_value() || (residual_scale_ != 1.0f && context_.exchanges.has_ranks());
}

ResidualTarget Block::TargetOf(const std::optional<Norm>& output_norm) const {
  if (HasBranch(output_norm)) return {context_.scratch.branch.as<float>()};
  return {context_.scratch.hidden.as<float>(), true, residual_scale_};
}

void Block::AddBranch(const std::optional<Norm>& output_norm, const LayerStep& step,
                      void* kept) const {
  if (!HasBranch(output_norm)) return;
  const float* const branch = context_.scratch.branch.as<float>();
  float* const hidden = context_.scratch.hidden.as<float>();
  if (output_norm.has_value()) {
    return output_norm->RunAndAdd(branch, step.num_rows(), hidden, step.stream, kept,
                                  kept == nullptr ? DType::kF32 : context_.activations);
  }
  ScaledAdd({.x = branch,
             .y = hidden,
             .n = step.num_rows() * context_.shape.hidden_size,
             .scale = residual_scale_,
             .accumulate = true},
            step.stream);
}

}  // namespace graft
