#include "layers/projection.h"

#include <optional>
#include <span>

#include "base/check.h"
#include "kernels/activate/activate.h"
#include "kernels/gated_activation/gated_activation.h"

namespace graft {
namespace {

// What LoRA's launches need to look up rows and ask for the first bytes while the product runs: 32
// distinct adapters take 7.38 ms a step instead of 7.51.
constexpr int32_t kSparedSharedBytes = 40 << 10;
constexpr int64_t kSparingRowsMax = 128;  // 256 rows would take 17.9 ms a step instead of 17.2

// The arguments of one product with the segments of these rows.
LoraArgs LoraOf(LoraRows rows, LoraArgs args, const DeviceBatch& batch) {
  const std::span<const LoraSegment> segments = batch.SegmentsOf(rows);
  args.segments = segments.data();
  args.num_segments = static_cast<int32_t>(segments.size());
  const bool are_drawn = rows == LoraRows::kDrawn || rows == LoraRows::kSettledDrawn;
  const bool has_prompts =
      !batch.SegmentsOf(rows == LoraRows::kDrawn ? LoraRows::kPrompts : LoraRows::kSettledPrompts)
           .empty();
  if (are_drawn && has_prompts) args.segment_rows = batch.lora_rows.end - batch.lora_rows.begin;
  if (rows == LoraRows::kDrawn) args.segment_rows_each = batch.lora_segment_rows_max;
  return args;
}

// Which of a step's times a launch counts for; null: for the total alone.
int64_t ForwardTimes::*TimeOf(LaunchKind kind) {
  switch (kind) {
    case LaunchKind::kProduct:
      return &ForwardTimes::gemm_ns;
    case LaunchKind::kShrink:
    case LaunchKind::kExpand:
    case LaunchKind::kBridgeFinish:
      return &ForwardTimes::lora_ns;
    case LaunchKind::kSumRanks:
      return &ForwardTimes::ranks_ns;
    case LaunchKind::kBridgeBegin:
    case LaunchKind::kActivate:
      return nullptr;
  }
  return nullptr;
}

void RunLora(const Launch& launch, LoraArgs args, Stream& stream) {
  args.precedes_product = launch.precedes_product;
  args.follows_product = launch.follows_product;
  if (launch.kind == LaunchKind::kShrink) return LoraShrink(args, stream);
  CHECK(launch.kind == LaunchKind::kExpand) << static_cast<int>(launch.kind);
  LoraExpand(args, stream);
}

}  // namespace

ProductTargets TargetsOf(const ModelShape& shape, LayerProduct product) {
  ProductTargets targets{.count = 0};
  for (const LoraModule module : shape.lora_modules()) {
    const TargetSpec& target = shape.lora_target(module);
    if (target.product != product) continue;
    if (targets.count == 0) targets.first = module;
    CHECK_LT(targets.count, kLoraSlicesMax);
    targets.n[targets.count++] = (shape.*target.out)();
  }
  CHECK_GT(targets.count, 0) << "no target of product " << static_cast<int>(product);
  return targets;
}

LoraArgs MakeLoraArgs(const ProductTargets& targets, const GemmWeight& weight, LoraArgs args) {
  args.num_slices = targets.count;
  args.x_stride = args.k = weight.k();
  args.y_stride = weight.n();
  int64_t column = 0;
  for (int32_t slice = 0; slice < targets.count; ++slice) {
    args.slice_begin[slice] = column;
    args.slice_n[slice] = targets.n[slice];
    column += targets.n[slice];
  }
  return args;
}

Projection::Projection(LayerContext& context, int32_t layer, LayerProduct product,
                       const GemmWeight& weight, const Buffer& bias)
    : context_(context),
      layer_(layer),
      product_(product),
      weight_(weight),
      bias_(bias.as<float>()),
      targets_(TargetsOf(context.shape, product)) {}

void Projection::Run(const Call& call, const LayerStep& step) const {
  if (step.learning != nullptr) return RunToLearn(call, step);
  RunLaunches(call, step);
}

void Projection::RunLaunches(const Call& call, const LayerStep& step) const {
  const ProductPlan& plan = step.layer_plan().of(product_);
  const Work work{call, plan.is_summand ? context_.exchanges.PartOf(call.target) : call.target};
  std::optional<StreamTimer::Scope> scope;
  int64_t ForwardTimes::*timed = nullptr;
  const LoraArgs lora = ArgsOfLora(work, step);
  for (const graft::Launch& launch : plan.launches()) {
    int64_t ForwardTimes::*const time = TimeOf(launch.kind);
    if (time != timed) {
      scope.reset();
      if (time != nullptr) scope.emplace(step.timer, step.TotalOf(time));
      timed = time;
    }
    Launch(launch, work, lora, step);
  }
}

void Projection::Launch(const graft::Launch& launch, const Work& work, const LoraArgs& lora,
                        const LayerStep& step) const {
  const bool keeps_drawn = step.layer_plan().of(product_).keeps_drawn;
  const GemmEpilogue::RowRange all = {0, static_cast<int32_t>(step.num_rows())};
  switch (launch.kind) {
    case LaunchKind::kBridgeBegin:
      return step.batch.bridge->Begin(layer_, targets_.first, lora, step.stream);
    case LaunchKind::kProduct:
      return Multiply(launch, work, lora, step);
    case LaunchKind::kBridgeFinish:
      return step.batch.bridge->Finish(lora, step.stream);
    case LaunchKind::kActivate:
      return Activate(work, keeps_drawn ? step.batch.lora_rows : all, step);
    case LaunchKind::kSumRanks:
      return context_.exchanges.Sum(step.num_rows() * weight_.n(), work.call.target, step.stream);
    case LaunchKind::kShrink:
    case LaunchKind::kExpand:
      return RunLora(launch, LoraOf(launch.rows, lora, step.batch), step.stream);
  }
}

void Projection::Multiply(const graft::Launch& launch, const Work& work, const LoraArgs& lora,
                          const LayerStep& step) const {
  const ProductPlan& plan = step.layer_plan().of(product_);
  GemmArgs gemm{.x = work.call.x,
                .x_stride = weight_.k(),
                .m = step.num_rows(),
                .weight = &weight_,
                .y = work.part.y,
                .y_stride = weight_.n(),
                .epilogue = {.bias = bias_,
                             .accumulate = work.part.accumulates,
                             .scale = work.part.scale,
                             .lora_place = plan.lora.in_product()},
                .x_is_fp32 = context_.activations == DType::kF32};
  Buffer& room = context_.scratch.codes_room;
  gemm.room = {room.data(), room.bytes()};
  GemmEpilogue& ends = gemm.epilogue;
  LoraArgs in_product;
  if (ends.lora_place != LoraPlace::kNone) {
    in_product = LoraOf(plan.rows_in_product, lora, step.batch);
    in_product.precedes_product = launch.follows_shrink;
    ends.lora = &in_product;
  }
  if (plan.activates) {
    ends.activated = work.call.activated;
    ends.rounded = work.call.kept;
  }
  if (plan.keeps_drawn) ends.kept_rows = step.batch.lora_rows;
  if (plan.spares_shared_memory && gemm.m <= kSparingRowsMax) {
    gemm.spared_shared_bytes = kSparedSharedBytes;
  }
  Gemm(gemm, step.stream);
}

void Projection::Activate(const Work& work, const GemmEpilogue::RowRange& rows,
                          const LayerStep& step) const {
  if (work.call.activated == nullptr) return;
  if (!context_.shape.gated_mlp) return ActivateWithoutGate(work, rows, step);
  const int64_t n = weight_.n() / 2;
  const int64_t element = DTypeBytes(context_.activations);
  char* const out = static_cast<char*>(work.call.activated);
  char* const kept = static_cast<char*>(work.call.kept);
  GatedActivation({.activation = work.call.activation,
                   .gate_up = work.part.y + rows.begin * weight_.n(),
                   .out = out + rows.begin * n * element,
                   .out_dtype = context_.activations,
                   .num_tokens = rows.end - rows.begin,
                   .n = n,
                   .copy = kept == nullptr ? nullptr : kept + rows.begin * 2 * n * element},
                  step.stream);
}

void Projection::ActivateWithoutGate(const Work& work, const GemmEpilogue::RowRange& rows,
                                     const LayerStep& step) const {
  const int64_t begin = rows.begin * weight_.n();
  const auto from = [&](void* elements) {
    return elements == nullptr
               ? nullptr
               : static_cast<char*>(elements) + begin * DTypeBytes(context_.activations);
  };
  graft::Activate({.activation = work.call.activation,
                   .x = work.part.y + begin,
                   .out = from(work.call.activated),
                   .out_dtype = context_.activations,
                   .copy = from(work.call.kept),
                   .n = (rows.end - rows.begin) * weight_.n()},
                  step.stream);
}

LoraBeside Projection::MakeLoraBeside(const LayerStep& step) const {
  if (!context_.CanRunLoraBeside(step.num_rows())) return {};
  const int64_t product = context_.shape.lora_matrix(layer_, targets_.first);
  return {.delta = context_.scratch.lora_delta.as<float>(),
          .words = context_.scratch.lora_words.as<uint32_t>() + product * kLoraBesideWords,
          .step = step.batch.step};
}

LoraArgs Projection::ArgsOfLora(const Work& work, const LayerStep& step) const {
  const LoraTable& table = step.batch.lora;
  if (table.matrices == nullptr) return {};
  const bool activates = step.layer_plan().of(product_).expand_activates;
  return MakeLoraArgs(
      targets_, weight_,
      {.dtype = context_.types.adapters,
       .matrices = table.matrices + context_.shape.lora_matrix(layer_, targets_.first),
       .matrices_stride = table.stride,
       .x = work.call.x,
       .h = context_.scratch.lora_h.as<float>(),
       .h_stride = table.rank_max,
       .num_rows = static_cast<int32_t>(step.num_rows()),
       .y = work.part.y,
       .scale = work.part.scale,
       .activated = activates ? work.call.activated : nullptr,
       .x_is_fp32 = context_.activations == DType::kF32,
       .beside = MakeLoraBeside(step)});
}

}  // namespace graft
