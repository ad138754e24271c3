// A batch's arrays, in one copy, and what layers are told of them. Products that would be longer
// than a piece may be take the batch in parts. A row's bits do not depend on that.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "kernels/attention/attention.h"
#include "learn/training_walker.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

constexpr int32_t kSegmentRows = 64;  // segments of this size are fastest for a GPU's LoRA

// Puts arrays side by side into one copy.
class Packer {
 public:
  Packer(std::vector<char>& bytes, const char* target) : bytes_(bytes), target_(target) {
    bytes_.clear();
  }
  template <typename T>
  const T* Put(std::span<const T> values) {
    const size_t begin = (bytes_.size() + 15) / 16 * 16;
    bytes_.resize(begin + values.size_bytes());
    if (!values.empty()) std::memcpy(bytes_.data() + begin, values.data(), values.size_bytes());
    return reinterpret_cast<const T*>(target_ + begin);
  }

 private:
  std::vector<char>& bytes_;
  const char* target_;
};

std::vector<LoraSegment> CutSegments(std::span<const LoraSegment> segments, const Device& device) {
  if (device.is_cpu()) return {segments.begin(), segments.end()};
  std::vector<LoraSegment> cut;
  for (const LoraSegment& segment : segments) {
    for (int32_t row = segment.row_begin; row < segment.row_end; row += kSegmentRows) {
      cut.push_back({row, std::min(row + kSegmentRows, segment.row_end), segment.adapter_slot});
    }
  }
  return cut;
}

int32_t SequenceRowsMax(const TrainingBatch& batch) {
  int32_t rows_max = 0;
  for (size_t i = 0; i + 1 < batch.row_begin.size(); ++i) {
    rows_max = std::max(rows_max, batch.row_begin[i + 1] - batch.row_begin[i]);
  }
  return rows_max;
}

}  // namespace

// A part begins with a segment, if there are any. `by_parts` counts segments' rows in their parts.
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
    RowPart& part = parts_.back();
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

TrainingWalker::BatchLists TrainingWalker::ListsOf(const TrainingBatch& batch) {
  BatchLists lists{.segments = CutSegments(batch.segments, stream_.device),
                   .document_segments = CutSegments(batch.document_segments, stream_.device)};
  CutParts(lists.segments, batch.num_rows(), &lists.part_segments);
  for (const LoraSegment& segment : batch.segments) {
    DeviceLora& lora = *followed_[static_cast<size_t>(segment.adapter_slot)].lora;
    lists.gradients.push_back({segment.row_begin, segment.row_end, lora.masters().gradients(),
                               lora.rank(), lora.scale()});
  }
  lists.embeddings = ListGradients(batch.embeddings);
  // The gradients' rows of prefixes follow each other in the order of the sequences.
  std::vector<VirtualRun> prefixes = batch.keys_values;
  int32_t row = 0;
  for (VirtualRun& run : prefixes) run.place = std::exchange(row, row + run.token_end);
  lists.keys_values = ListGradients(std::move(prefixes));
  lists.prefixes = ListPrefixes(batch);
  return lists;
}

TrainingWalker::Batch TrainingWalker::Pack(const TrainingBatch& batch, const BatchLists& lists,
                                           const TrainingTargets& targets, const char* target) {
  Packer packer(batch_on_host_, target);
  const auto put = [&](const auto& values) { return packer.Put(std::span(values)); };
  const auto put_prompts = [&](const PromptGradients& list) -> Prompts {
    return {static_cast<int32_t>(list.items.size()), put(list.items), put(list.places)};
  };
  const auto put_span = [&](const auto& values) {
    return std::span(packer.Put(std::span(values)), values.size());
  };
  DeviceBatch arrays;
  arrays.tokens = put_span(batch.tokens);
  arrays.positions = put_span(batch.positions);
  arrays.row_page = put_span(batch.row_page);
  arrays.row_slot = put_span(batch.row_slot);
  arrays.row_begin = put_span(batch.row_begin);
  arrays.page_begin = put_span(batch.page_begin);
  arrays.pages = put_span(batch.pages);
  arrays.kv_tokens = put_span(batch.kv_tokens);
  const bool tells_given = AttentionTellsGivenRows(pool_.layout(), stream_.device);
  arrays.num_given = tells_given ? batch.num_sequences() : 0;
  arrays.sequence_rows_max = SequenceRowsMax(batch);
  arrays.kv_tokens_max = *std::ranges::max_element(batch.kv_tokens);
  arrays.lora = {matrices_.as<LoraMatrix>(), context_.shape.num_layer_matrices(), limits_.rank_max};
  arrays.virtual_embeddings = put_span(batch.embeddings);
  arrays.virtual_rows = virtual_rows_.as<VirtualRows>();
  arrays.virtual_run_tokens_max = batch.run_tokens_max;
  return {.arrays = arrays,
          .segments = put(lists.segments),
          .part_segments = put_span(lists.part_segments),
          .document_segments = put_span(lists.document_segments),
          .gradients = put_span(lists.gradients),
          .embeddings = put_prompts(lists.embeddings),
          .keys_values = put_prompts(lists.keys_values),
          .runs = put_span(batch.keys_values),
          .prefixes = lists.prefixes.empty() ? nullptr : put(lists.prefixes),
          .num_targets = static_cast<int32_t>(targets.rows.size()),
          .num_choices = targets.num_choices,
          .rows = put(targets.rows),
          .ids = put(targets.ids),
          .probabilities = put(targets.probabilities),
          .weights = put(targets.weights)};
}

void TrainingWalker::PutBatch(const TrainingBatch& batch, const TrainingTargets& targets,
                              bool learns) {
  FollowAdapters();
  CHECK(batch.num_rows() > 0 && batch.num_rows() <= limits_.rows_max) << batch.num_rows();
  CHECK_LE(batch.num_sequences(), limits_.sequences_max);
  CHECK_LE(batch.num_pages(), pool_.num_pages());
  const BatchLists lists = ListsOf(batch);
  batch_ = Pack(batch, lists, targets, batch_bytes_.as<char>());
  const auto bytes = static_cast<int64_t>(batch_on_host_.size());
  if (bytes > batch_bytes_.bytes()) {
    CHECK(stream_.device.is_cpu()) << "more choices than " << kTrainingChoices << " a row";
    batch_bytes_ = Buffer(bytes);
    batch_ = Pack(batch, lists, targets, batch_bytes_.as<char>());
  }
  TellLayers(lists);
  learning_.learns = learns;
  CopyToDevice(batch_bytes_.data(), batch_on_host_.data(), bytes, stream_);
}

// LoRA is added as for a prompt's rows. If it follows the product, gate and up are kept later, too.
void TrainingWalker::TellLayers(const BatchLists& lists) {
  const auto num_segments = static_cast<int32_t>(lists.segments.size());
  const bool has_lora = num_segments > 0;
  const bool is_inside = learning_.lora_place == LoraPlace::kInside;
  const bool all_silu = std::ranges::all_of(
      config_.layers, [](const LayerSpec& layer) { return layer.activation == Activation::kSilu; });
  plan_ =
      PlanLaunches({.on_gpu = !stream_.device.is_cpu(),
                    .can_inside = is_inside,
                    .fuses_activation = config_.gated_mlp && all_silu && (is_inside || !has_lora),
                    .has_prompts = has_lora});
  const LoraSegment* next = batch_.part_segments.data();
  for (RowPart& part : parts_) {
    part.segments = next;
    next += part.num_segments;
  }
  learning_.whole = {0, static_cast<int32_t>(num_rows()), batch_.segments, num_segments};
  learning_.parts = parts_;
  learning_.gradients = batch_.gradients;
  learning_.document_segments = batch_.document_segments;
}

}  // namespace graft
