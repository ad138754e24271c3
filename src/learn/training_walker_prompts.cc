// Virtual tokens: what stands in front of sequences, what it begins with, and its gradients.
#include <algorithm>
#include <iterator>

#include "adapters/lora_weights.h"
#include "base/check.h"
#include "kernels/virtual_kv/virtual_kv.h"
#include "learn/training_walker.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace {

// On the CPU attention takes the rounded numbers in fp32.
AttentionPrefix PrefixOf(const TrainedPrompt& prompt, int32_t num_tokens, const DeviceMasters& here,
                         int32_t layer, const Device& device) {
  if (device.is_cpu()) return {num_tokens, prompt.rounded(layer), prompt.columns()};
  const int64_t row_bytes = LoraRowBytes(prompt.layer_columns(), prompt.dtype());
  return {num_tokens, here.copy() + int64_t{layer} * prompt.num_tokens() * row_bytes,
          row_bytes / DTypeBytes(prompt.dtype())};
}

}  // namespace

void TrainingWalker::ListPrompts() {
  std::vector<VirtualRows> rows;
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    for (size_t i = 0; i < adapters_.size(); ++i) {
      const TrainedPrompt* const prompt = adapters_[i].prompt;
      const bool has_any =
          prompt != nullptr && (layer == 0 || prompt->kind() == VirtualTokenKind::kKeysValues);
      rows.push_back(has_any ? followed_[i].prompt->row_pointers() +
                                   int64_t{layer} * prompt->num_tokens()
                             : nullptr);
    }
  }
  virtual_rows_ = OnDevice(rows, stream_);
}

TrainingWalker::PromptGradients TrainingWalker::ListGradients(std::vector<VirtualRun> runs) {
  std::ranges::stable_sort(runs, {}, &VirtualRun::adapter_slot);
  PromptGradients list;
  int32_t last = -1;
  for (const VirtualRun& run : runs) {
    CHECK_EQ(run.token_begin, 0);
    const auto index = static_cast<size_t>(run.adapter_slot);
    if (adapters_[index].is_frozen) continue;
    const auto place = static_cast<int32_t>(list.places.size());
    if (run.adapter_slot != last) {
      list.items.push_back({followed_[index].prompt->gradients(), run.token_end, place, place});
    }
    last = run.adapter_slot;
    CHECK_EQ(list.items.back().num_tokens, run.token_end);
    list.places.push_back(run.place);
    ++list.items.back().place_end;
  }
  return list;
}

std::vector<AttentionPrefix> TrainingWalker::ListPrefixes(const TrainingBatch& batch) {
  std::vector<AttentionPrefix> prefixes;
  if (batch.keys_values.empty()) return prefixes;
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    float* d_next = d_prefixes_.as<float>();
    for (const SequencePrompt& prompt : batch.prompts) {
      prefixes.emplace_back();
      const int32_t num_tokens = prompt.num_keys_values();
      if (num_tokens == 0) continue;
      CHECK_LE(num_tokens, limits_.prefix_tokens_max);
      const auto index = static_cast<size_t>(prompt.adapter);
      prefixes.back() = PrefixOf(*adapters_[index].prompt, num_tokens, *followed_[index].prompt,
                                 layer, stream_.device);
      prefixes.back().d_keys_values = d_next;
      d_next += int64_t{num_tokens} * 2 * config_.kv_size();
    }
  }
  return prefixes;
}

// Writes the keys and values in front of sequences to these sequences' first pages.
void TrainingWalker::PlaceKeysAndValues(int32_t layer) {
  const int64_t first = int64_t{layer} * std::ssize(followed_);
  VirtualKv({.layout = pool_.layout(),
             .pool = pool_.data(),
             .table = virtual_rows_.as<VirtualRows>() + first,
             .runs = batch_.runs.data(),
             .num_runs = static_cast<int32_t>(batch_.runs.size()),
             .run_tokens_max = batch_.arrays.virtual_run_tokens_max,
             .pages = batch_.arrays.pages.data()},
            stream_);
}

void TrainingWalker::AddPromptGradients(const Prompts& prompts, const Buffer& x, int64_t n,
                                        int64_t stride, int64_t offset, float scale) {
  VirtualGradient({.items = prompts.items,
                   .num_items = prompts.num_items,
                   .num_tokens_max = batch_.arrays.virtual_run_tokens_max,
                   .places = prompts.places,
                   .x = x.as<float>(),
                   .n = n,
                   .gradient_stride = stride,
                   .gradient_offset = offset,
                   .scale = scale},
                  stream_);
}

void TrainingWalker::BeginPrompt(const TrainingBatch& batch, TrainedPrompt& prompt) {
  CHECK_EQ(batch.num_rows(), prompt.num_tokens());
  PutBatch(batch, {}, false);
  const TrainingPieces::Scope piece(pieces_);
  if (prompt.kind() == VirtualTokenKind::kKeysValues) return BeginKeysAndValues(prompt);
  embedding_.RunTokens(Step());
  const TrainingPieces::Break others(pieces_);
  CopyFromDevice(prompt.parameters().data(), hidden(),
                 static_cast<int64_t>(prompt.parameters().size_bytes()), stream_);
  Synchronize(stream_);
}

void TrainingWalker::BeginKeysAndValues(TrainedPrompt& prompt) {
  const int64_t row_bytes = config_.qkv_size() * DTypeBytes(dtype_);
  std::vector<char> rows(static_cast<size_t>(num_rows() * row_bytes));
  embedding_.Run(Step());
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    RunLayer(layer);
    {
      const TrainingPieces::Break others(pieces_);
      CopyFromDevice(rows.data(), KeptOf(layer).attention.qkv, std::ssize(rows), stream_);
      Synchronize(stream_);
    }
    for (int64_t token = 0; token < prompt.num_tokens(); ++token) {
      const char* const from =
          rows.data() + token * row_bytes + config_.q_size() * DTypeBytes(dtype_);
      ConvertElements(
          dtype_, from, DType::kF32,
          prompt.parameters().data() + token * prompt.columns() + layer * prompt.layer_columns(),
          prompt.layer_columns());
    }
  }
}

}  // namespace graft
