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
}

void Block::Run(const LayerStep& step) const {
  if (parallel_) return RunInParallel(step);
  void* const normed = context_.scratch.normed.data();
  Normalize(attention_norm_, normed, step);
  attention_.Run(TargetOf(attention_output_norm_), step);
  AddBranch(attention_output_norm_, step);
  Normalize(mlp_norm_, normed, step);
  mlp_.Run(normed, TargetOf(mlp_output_norm_), step);
  AddBranch(mlp_output_norm_, step);
}

// Both norms read x before attention adds to it.
void Block::RunInParallel(const LayerStep& step) const {
  void* const normed = context_.scratch.normed.data();
  void* const mlp_normed = has_second_norm_ ? context_.scratch.mlp_normed.data() : normed;
  Normalize(attention_norm_, normed, step);
  if (has_second_norm_) Normalize(mlp_norm_, mlp_normed, step);
  attention_.Run(TargetOf(std::nullopt), step);
  mlp_.Run(mlp_normed, TargetOf(std::nullopt), step);
}

void Block::Normalize(const Norm& norm, void* out, const LayerStep& step) const {
  norm.Run(context_.scratch.hidden.as<float>(), step.num_rows(), context_.activations, out,
           step.stream);
}

bool Block::HasBranch(const std::optional<Norm>& output_norm) const {
  return output_norm.has_value() || (residual_scale_ != 1.0f && context_.exchanges.has_ranks());
}

ResidualTarget Block::TargetOf(const std::optional<Norm>& output_norm) const {
  if (HasBranch(output_norm)) return {context_.scratch.branch.as<float>()};
  return {context_.scratch.hidden.as<float>(), true, residual_scale_};
}

void Block::AddBranch(const std::optional<Norm>& output_norm, const LayerStep& step) const {
  if (!HasBranch(output_norm)) return;
  const float* const branch = context_.scratch.branch.as<float>();
  float* const hidden = context_.scratch.hidden.as<float>();
  if (output_norm.has_value()) {
    return output_norm->RunAndAdd(branch, step.num_rows(), hidden, step.stream);
  }
  ScaledAdd({.x = branch,
             .y = hidden,
             .n = step.num_rows() * context_.shape.hidden_size,
             .scale = residual_scale_,
             .accumulate = true},
            step.stream);
}

}  // namespace graft
