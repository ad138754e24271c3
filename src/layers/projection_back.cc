// Projection in a step that learns: in parts, with what LoRA's gradients need of the forward, with
// documents' adapters; and back.
#include <iterator>

#include "base/check.h"
#include "layers/learning_step.h"
#include "layers/projection.h"

namespace graft {
namespace {

std::span<const RowPart> PartsFor(const LearningStep& learning, double flop) {
  if (learning.pieces.Fits(flop)) return {&learning.whole, 1};
  return learning.parts;
}

// A step of these rows, as a product sees it.
LayerStep StepOf(const RowPart& part, const LayerStep& step) {
  DeviceBatch batch = step.batch;
  batch.tokens =
      batch.tokens.subspan(static_cast<size_t>(part.row_begin), static_cast<size_t>(part.num_rows));
  batch.lora_prompt_segments = {part.segments, static_cast<size_t>(part.num_segments)};
  return {.batch = batch, .stream = step.stream, .plan = step.plan, .learning = step.learning};
}

LoraArgs OfDocuments(LoraArgs args, const LearningStep& learning) {
  args.segments = learning.document_segments.data();
  args.num_segments = static_cast<int32_t>(learning.document_segments.size());
  return args;
}

}  // namespace

double Projection::FlopOf(int64_t num_rows) const {
  return 2.0 * static_cast<double>(num_rows * weight_.n()) * static_cast<double>(weight_.k());
}

const void* Projection::Elements(const void* x, int64_t count) const {
  return static_cast<const char*>(x) + count * DTypeBytes(context_.activations);
}

void* Projection::Elements(void* x, int64_t count) const {
  return x == nullptr ? nullptr : static_cast<char*>(x) + count * DTypeBytes(context_.activations);
}

Projection::Call Projection::OfPart(Call call, const RowPart& part) const {
  const int64_t row = part.row_begin;
  call.x = Elements(call.x, row * weight_.k());
  call.target.y += row * weight_.n();
  call.activated = Elements(call.activated, row * context_.shape.intermediate());
  call.kept = Elements(call.kept, row * weight_.n());
  return call;
}

void Projection::RunToLearn(const Call& call, const LayerStep& step) const {
  const LearningStep& learning = *step.learning;
  // What documents add comes between the product and what follows.
  const bool has_documents = !learning.document_segments.empty();
  Call product = call;
  if (has_documents) product.activated = product.kept = nullptr;
  for (const RowPart& part : PartsFor(learning, FlopOf(step.num_rows()))) {
    learning.pieces.BeforeWork(FlopOf(part.num_rows));
    RunLaunches(OfPart(product, part), StepOf(part, step));
    if (learning.learns && part.num_segments > 0) RoundH(part, step);
  }
  if (!has_documents) return;
  const Work work{call, call.target};
  Lora(OfDocuments(ArgsOfLora(work, step), learning), step.stream);
  Activate(work, {0, static_cast<int32_t>(step.num_rows())}, step);
}

// A row of h, rounded: [slices, RankStride].
int64_t Projection::RankStride(const LayerStep& step) const {
  return LoraGradientRankStride(step.batch.lora.rank_max);
}

void* Projection::RankRows(void* h, int64_t row, const LayerStep& step) const {
  return Elements(h, row * targets_.count * RankStride(step));
}

void* Projection::RoundedH(const LayerStep& step) const {
  const int64_t matrix = context_.shape.lora_matrix(layer_, targets_.first);
  const LearningStep& learning = *step.learning;
  return Elements(learning.room.rounded_h.data(), matrix * learning.rows_max * RankStride(step));
}

void Projection::RoundH(const RowPart& part, const LayerStep& step) const {
  const int32_t rank_max = step.batch.lora.rank_max;
  const int64_t slice_floats = int64_t{part.num_rows} * rank_max;
  LoraGradientRound({.h = context_.scratch.lora_h.as<float>(),
                     .h_stride = rank_max,
                     .h_slice = slice_floats,
                     .num_slices = targets_.count,
                     .num_parts = LoraPartsOf(step.stream.device),
                     .part = targets_.count * slice_floats,
                     .rank_max = rank_max,
                     .num_rows = part.num_rows,
                     .dtype = context_.activations,
                     .out = RankRows(RoundedH(step), part.row_begin, step)},
                    step.stream);
}

void Projection::RoundBackH(const RowPart& part, const LayerStep& step) const {
  const int32_t rank_max = step.batch.lora.rank_max;
  const int64_t row_floats = int64_t{targets_.count} * rank_max;
  LoraGradientRound({.h = step.learning->room.lora_d_h.as<float>(),
                     .h_stride = row_floats,
                     .h_slice = rank_max,
                     .num_slices = targets_.count,
                     .num_parts = LoraPartsOf(step.stream.device),
                     .part = row_floats * part.num_rows,
                     .rank_max = rank_max,
                     .num_rows = part.num_rows,
                     .dtype = context_.activations,
                     .out = RankRows(step.learning->room.rounded_d_h.data(), part.row_begin, step)},
                    step.stream);
}

// LoRA with A and B in each other's place takes the gradient of a slice of y to that of x. Slices'
// h lie side by side, as if they were ranks of one matrix. `stacked`: the expand of all of them.
LoraArgs Projection::BackLora(const BackCall& call, int32_t slice, const RowPart& part,
                              const LayerStep& step, bool stacked) const {
  const LearningStep& learning = *step.learning;
  const LoraTable& table = step.batch.lora;
  const int64_t row = part.row_begin;
  int64_t column = 0;
  for (int32_t i = 0; i < slice; ++i) column += targets_.n[i];
  auto* const d_x = static_cast<float*>(call.d_x);
  return {.dtype = context_.types.adapters,
          .segments = part.segments,
          .num_segments = part.num_segments,
          .matrices = (stacked ? learning.stacked : learning.swapped) +
                      context_.shape.lora_matrix(layer_, targets_.first) + slice,
          .matrices_stride = table.stride,
          .x = Elements(call.d_y, row * weight_.n() + column),
          .x_stride = weight_.n(),
          .k = targets_.n[slice],
          .h = learning.room.lora_d_h.as<float>() + int64_t{slice} * table.rank_max,
          .h_stride = int64_t{targets_.count} * table.rank_max,
          .num_rows = part.num_rows,
          .y = d_x == nullptr ? nullptr : d_x + row * weight_.k(),
          .y_stride = weight_.k(),
          .slice_n = {weight_.k()},
          .x_is_fp32 = context_.activations == DType::kF32};
}

GemmArgs Projection::BackGemm(const BackCall& call, const RowPart& part, GemmArgs gemm,
                              LoraPlace lora_place, bool rounds) const {
  const int64_t row = part.row_begin;
  gemm.x = Elements(call.d_y, row * weight_.n());
  gemm.x_stride = weight_.n();
  gemm.m = part.num_rows;
  gemm.y = static_cast<float*>(call.d_x) + row * weight_.k();
  gemm.y_stride = weight_.k();
  gemm.x_is_fp32 = context_.activations == DType::kF32;
  gemm.epilogue.lora_place = lora_place;
  if (rounds) gemm.epilogue.rounded = Elements(call.d_x, row * weight_.k());
  return gemm;
}

DType Projection::Back(const BackCall& call, const LayerStep& step) const {
  const LearningStep& learning = *step.learning;
  const int32_t slices = targets_.count;
  const bool is_one = slices == 1;
  const bool has_lora = learning.whole.num_segments > 0;
  const bool has_input = call.d_x != nullptr;
  // LoRA joins the product, unless there are several slices of adapters of several ranks, which
  // cannot lie side by side: they follow it, one after the other.
  const bool joins = has_input && has_lora && (is_one || learning.can_stack);
  const bool rounds =
      joins && call.may_round && learning.can_round && learning.transposed.are_read_transposed();
  const bool in_parts = has_input && (joins || !has_lora);
  const GemmArgs weight = has_input ? learning.transposed.ArgsOf(layer_, product_) : GemmArgs();
  for (const RowPart& part : in_parts ? PartsFor(learning, FlopOf(step.num_rows()))
                                      : std::span<const RowPart>(&learning.whole, 1)) {
    learning.pieces.BeforeWork(FlopOf(part.num_rows));
    LoraArgs joined = BackLora(call, 0, part, step, !is_one);
    joined.precedes_product = joins && is_one && learning.lora_place == LoraPlace::kInside;
    for (int32_t slice = 0; slice < slices && part.num_segments > 0; ++slice) {
      LoraShrink(is_one ? joined : BackLora(call, slice, part, step), step.stream);
    }
    if (has_input) {
      GemmArgs gemm = BackGemm(call, part, weight, learning.lora_place, rounds);
      if (joins && part.num_segments > 0) gemm.epilogue.lora = &joined;
      Gemm(gemm, step.stream);
    }
    if (part.num_segments > 0) RoundBackH(part, step);
  }
  if (rounds) return context_.activations;
  if (!has_input) return DType::kF32;
  for (int32_t slice = 0; slice < slices && has_lora && !joins; ++slice) {
    LoraExpand(BackLora(call, slice, learning.whole, step), step.stream);
  }
  if (!learning.document_segments.empty()) BackThroughDocuments(call, step);
  return DType::kF32;
}

// By the room of the forward's h: AddGradients reads the other one.
void Projection::BackThroughDocuments(const BackCall& call, const LayerStep& step) const {
  for (int32_t slice = 0; slice < targets_.count; ++slice) {
    LoraArgs lora = OfDocuments(BackLora(call, slice, step.learning->whole, step), *step.learning);
    lora.h = context_.scratch.lora_h.as<float>();
    lora.h_stride = step.batch.lora.rank_max;
    Lora(lora, step.stream);
  }
}

// B's of a slice has a gradient of y of its own, A's all share x.
void Projection::AddGradients(const void* x, const void* d_y, const LayerStep& step) const {
  const LearningStep& learning = *step.learning;
  if (learning.whole.num_segments == 0) return;
  const int32_t slices = targets_.count;
  learning.pieces.BeforeBytes(step.num_rows() * (weight_.k() + weight_.n()) *
                              DTypeBytes(context_.activations));
  LoraGradientArgs args{.segments = learning.gradients.data(),
                        .num_segments = static_cast<int32_t>(learning.gradients.size()),
                        .num_products = slices + 1,
                        .dtype = context_.activations,
                        .rank_max = step.batch.lora.rank_max,
                        .num_rows = static_cast<int32_t>(step.num_rows()),
                        .scratch = learning.room.gradients.as<float>(),
                        .counters = learning.room.gradient_counters.as<uint32_t>()};
  LoraGradientProduct& all = args.products[slices];
  all = {.h = learning.room.rounded_d_h.data(),
         .h_stride = slices * RankStride(step),
         .h_matrix = RankStride(step),
         .x = x,
         .x_stride = weight_.k(),
         .n = weight_.k(),
         .num_matrices = slices};
  int64_t column = 0;
  int64_t rank_offset = context_.shape.LoraColumnsBefore(layer_, targets_.first);
  for (int32_t slice = 0; slice < slices; ++slice) {
    all.rank_offset[slice] = rank_offset;
    rank_offset += weight_.k();
    args.products[slice] = {.h = Elements(RoundedH(step), slice * RankStride(step)),
                            .h_stride = all.h_stride,
                            .x = Elements(d_y, column),
                            .x_stride = weight_.n(),
                            .n = targets_.n[slice],
                            .rank_offset = {rank_offset}};
    rank_offset += targets_.n[slice];
    column += targets_.n[slice];
  }
  LoraGradient(args, step.stream);
}

}  // namespace graft
