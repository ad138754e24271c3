// Products in parts: one that is longer than a piece may be takes rows of the batch after rows. A
// row's bits do not depend on that.
#include "learn/training_walker.h"

namespace graft {

// Parts begin with segments, where there are any. `by_parts`: the segments, in rows of their parts.
void TrainingWalker::CutParts(std::span<const LoraSegment> cut, int32_t num_rows,
                              std::vector<LoraSegment>* by_parts) {
  const auto rows_max = static_cast<int32_t>(pieces_.RowsOfPart(
      4.0 * static_cast<double>(config_.hidden_size) * config_.intermediate_size));  // gate and up
  parts_.clear();
  parts_.push_back({});
  for (const LoraSegment& segment : cut) {
    if (segment.row_end - parts_.back().row_begin > rows_max && parts_.back().num_segments > 0) {
      parts_.back().num_rows = segment.row_begin - parts_.back().row_begin;
      parts_.push_back({.row_begin = segment.row_begin});
    }
    Part& part = parts_.back();
    ++part.num_segments;
    by_parts->push_back({segment.row_begin - part.row_begin, segment.row_end - part.row_begin,
                         segment.adapter_slot});
  }
  if (cut.empty()) {
    for (int32_t row = rows_max; row < num_rows; row += rows_max) {
      parts_.back().num_rows = rows_max;
      parts_.push_back({.row_begin = row});
    }
  }
  parts_.back().num_rows = num_rows - parts_.back().row_begin;
}

std::span<const TrainingWalker::Part> TrainingWalker::PartsOf(const Product& product) const {
  if (pieces_.Fits(FlopOf(product.weight, batch_.num_rows))) return {&whole_, 1};
  return parts_;
}

GemmArgs TrainingWalker::OfPart(GemmArgs args, const Part& part) const {
  const int64_t row = part.row_begin;
  args.x = Columns(args.x, row * args.x_stride);
  args.m = part.num_rows;
  args.y += row * args.y_stride;
  if (void*& rounded = args.epilogue.rounded; rounded != nullptr) {
    rounded = static_cast<char*>(rounded) + row * args.y_stride * DTypeBytes(dtype_);
  }
  return args;
}

LoraArgs TrainingWalker::OfPart(LoraArgs args, const Part& part) const {
  args.segments = part.segments;
  args.num_segments = part.num_segments;
  args.x = Columns(args.x, part.row_begin * args.x_stride);
  if (args.y != nullptr) args.y += part.row_begin * args.y_stride;
  args.num_rows = part.num_rows;
  return args;
}

Projection::Call TrainingWalker::OfPart(Projection::Call call, const Product& product,
                                        const Part& part) const {
  const int64_t row = part.row_begin;
  const int64_t n = product.weight.n();
  const auto shift = [&](void*& rows, int64_t columns) {
    if (rows != nullptr) rows = static_cast<char*>(rows) + row * columns * DTypeBytes(dtype_);
  };
  call.x = Columns(call.x, row * product.weight.k());
  call.target.y += row * n;
  shift(call.activated, n / 2);
  shift(call.kept, n);
  return call;
}

// A step of these rows, as a product sees it.
LayerStep TrainingWalker::StepOf(const Part& part) {
  DeviceBatch arrays = batch_.arrays;
  arrays.tokens = arrays.tokens.subspan(static_cast<size_t>(part.row_begin),
                                        static_cast<size_t>(part.num_rows));
  arrays.lora_prompt_segments = {part.segments, static_cast<size_t>(part.num_segments)};
  return {.batch = arrays, .stream = stream_, .plan = plan_};
}

}  // namespace graft
