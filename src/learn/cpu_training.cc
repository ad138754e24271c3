#include "learn/cpu_training.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "kernels/adamw/adamw.h"
#include "kernels/linear_map/linear_map.h"
#include "kernels/token_loss/token_loss.h"

namespace graft {
namespace {

std::vector<int32_t> RowsOf(const EncodedRows& part) {
  std::vector<int32_t> rows(static_cast<size_t>(part.num_rows));
  std::iota(rows.begin(), rows.end(), part.row);
  return rows;
}

}  // namespace

CpuTraining::CpuTraining(const ModelConfig& config, const ModelWeights& weights,
                         const TrainingLimits& limits, Stream& stream, std::function<void()> pause)
    : config_(config),
      limits_(limits),
      stream_(stream),
      transformer_(config, weights, limits, stream, std::move(pause)) {}

void CpuTraining::Add(const AdapterInTraining& adapter) {
  adapters_.push_back(adapter);
  best_.emplace_back();
}

void CpuTraining::BeginGradients(std::span<const int32_t> adapters) {
  for (const int32_t index : adapters) {
    const AdapterInTraining& adapter = adapters_[Index(index)];
    if (adapter.lora != nullptr) adapter.lora->ZeroGradients();
    if (adapter.prompt != nullptr) adapter.prompt->ZeroGradients();
  }
}

std::vector<double> CpuTraining::Run(const TrainingBatch& batch, const TrainingTargets& targets,
                                     bool backward) {
  std::vector<double> losses(targets.rows.size());
  transformer_.Forward(batch, adapters_);
  if (backward) transformer_.ZeroGradients();
  for (size_t begin = 0; begin < losses.size();) {
    const size_t count =
        std::min(static_cast<size_t>(limits_.logits_rows_max), losses.size() - begin);
    const std::span<const int32_t> rows = targets.rows.subspan(begin, count);
    const size_t choices = begin * static_cast<size_t>(targets.num_choices);
    TokenLoss({.logits = transformer_.ComputeHead(rows),
               .num_rows = static_cast<int64_t>(count),
               .vocab_size = config_.vocab_size,
               .num_choices = targets.num_choices,
               .ids = targets.ids.data() + choices,
               .probabilities = targets.probabilities.data() + choices,
               .weights = targets.weights.data() + begin,
               .losses = losses.data() + begin},
              stream_);
    if (backward) transformer_.BackwardHead(rows);
    begin += count;
    transformer_.Pause();
  }
  if (backward) transformer_.Backward();
  return losses;
}

void CpuTraining::Refresh(int32_t adapter) {
  const auto& [lora, prompt, is_frozen] = adapters_[Index(adapter)];
  if (lora != nullptr) lora->Refresh();
  if (prompt != nullptr) prompt->Refresh();
}

void CpuTraining::Apply(std::span<const Update> updates) {
  std::vector<AdamWItem> items;
  std::vector<double> norms(2 * updates.size());
  // What is learned of the numbers from `begin` on.
  const auto add = [&](auto& trained, int64_t begin, int32_t step, const UpdateSettings& settings) {
    if (begin == static_cast<int64_t>(trained.parameters().size())) return;
    items.push_back({.parameters = trained.parameters().data() + begin,
                     .gradients = trained.gradients().data() + begin,
                     .first_moments = trained.first_moments().data() + begin,
                     .second_moments = trained.second_moments().data() + begin,
                     .n = static_cast<int64_t>(trained.parameters().size()) - begin,
                     .step = step,
                     .learning_rate = settings.learning_rate,
                     .weight_decay = settings.weight_decay,
                     .norm_max = settings.norm_max,
                     .norm = &norms[items.size()]});
  };
  for (const Update& update : updates) {
    const auto& [lora, prompt, is_frozen] = adapters_[Index(update.adapter)];
    CHECK(!is_frozen);
    if (lora != nullptr) add(*lora, 0, update.step, update.settings);
    if (prompt != nullptr) add(*prompt, prompt->num_frozen(), update.step, update.prompt_settings);
  }
  AdamW({items.data(), static_cast<int32_t>(items.size())}, stream_);
  transformer_.Pause();
  for (const Update& update : updates) Refresh(update.adapter);
  transformer_.Pause();
}

std::vector<std::span<float>> CpuTraining::NumbersOf(int32_t adapter) {
  const auto& [lora, prompt, is_frozen] = adapters_[Index(adapter)];
  std::vector<std::span<float>> numbers;
  if (lora != nullptr) numbers.push_back(lora->parameters());
  if (prompt != nullptr) numbers.push_back(prompt->parameters());
  return numbers;
}

void CpuTraining::KeepBest(int32_t adapter) {
  std::vector<float>& best = best_[Index(adapter)];
  best.clear();
  for (const std::span<float> numbers : NumbersOf(adapter)) {
    best.insert(best.end(), numbers.begin(), numbers.end());
  }
}

void CpuTraining::TakeBest(int32_t adapter) {
  const float* from = best_[Index(adapter)].data();
  for (const std::span<float> numbers : NumbersOf(adapter)) {
    std::copy_n(from, numbers.size(), numbers.begin());
    from += numbers.size();
  }
  Refresh(adapter);
}

std::vector<EncodedRows> CpuTraining::HeadParts(std::span<const EncodedRows> rows) const {
  std::vector<EncodedRows> parts;
  for (const EncodedRows& all : rows) {
    for (int32_t done = 0; done < all.num_rows; done += limits_.logits_rows_max) {
      parts.push_back({all.row + done, std::min(limits_.logits_rows_max, all.num_rows - done),
                       all.memory, all.first + done});
    }
  }
  return parts;
}

void CpuTraining::Encode(const TrainingBatch& batch, std::span<const EncodedRows> rows) {
  transformer_.Forward(batch, adapters_);
  for (const EncodedRows& part : HeadParts(rows)) {
    TrainedPrompt& memory = PromptOf(part.memory);
    std::copy_n(transformer_.ComputeNormed(RowsOf(part)), part.num_rows * memory.columns(),
                memory.parameters().data() + part.first * memory.columns());
  }
  for (const EncodedRows& part : rows) PromptOf(part.memory).Refresh();
}

void CpuTraining::BackwardEncoded(const TrainingBatch& batch, std::span<const EncodedRows> rows) {
  transformer_.Forward(batch, adapters_);
  transformer_.ZeroGradients();
  for (const EncodedRows& part : HeadParts(rows)) {
    TrainedPrompt& memory = PromptOf(part.memory);
    const std::vector<int32_t> batch_rows = RowsOf(part);
    transformer_.ComputeNormed(batch_rows);  // what its backward reads
    transformer_.BackwardNormed(batch_rows,
                                memory.gradients().data() + part.first * memory.columns());
  }
  transformer_.Backward();
}

void CpuTraining::Map(int32_t map, std::span<const MappedRows> rows) {
  const int64_t n = config_.hidden_size;
  for (const MappedRows& part : rows) {
    TrainedPrompt& memory = PromptOf(part.memory);
    CHECK_LE(part.first + part.num_rows, memory.num_tokens());
    LinearMap({part.vectors, PromptOf(map).parameters().data(),
               memory.parameters().data() + part.first * n, part.num_rows, n, n},
              stream_);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || rows[i].memory != rows[i - 1].memory) PromptOf(rows[i].memory).Refresh();
  }
}

void CpuTraining::BackwardMap(int32_t map, std::span<const MappedRows> rows) {
  const int64_t n = config_.hidden_size;
  for (const MappedRows& part : rows) {
    LinearMapGradient({part.vectors, PromptOf(part.memory).gradients().data() + part.first * n,
                       PromptOf(map).gradients().data(), part.num_rows, n, n},
                      stream_);
  }
}

void CpuTraining::BeginPrompt(const TrainingBatch& batch, TrainedPrompt& prompt) {
  const int64_t stride = config_.qkv_size();
  const bool is_embedding = prompt.kind() == VirtualTokenKind::kEmbedding;
  transformer_.Forward(batch, {}, [&](int32_t layer, const float* qkv) {
    if (is_embedding) return;
    for (int64_t i = 0; i < prompt.num_tokens(); ++i) {
      const float* from = qkv + i * stride + config_.q_size();
      float* to =
          prompt.parameters().data() + i * prompt.columns() + layer * prompt.layer_columns();
      std::copy_n(from, prompt.layer_columns(), to);
    }
  });
  if (!is_embedding) return;
  std::copy_n(transformer_.hidden(0), prompt.parameters().size(), prompt.parameters().data());
}

void CpuTraining::TakeStates(const TrainingBatch& batch, std::span<const int32_t> rows,
                             float* states) {
  const auto n = static_cast<size_t>(config_.hidden_size);
  transformer_.Forward(batch, {});
  for (size_t begin = 0; begin < rows.size();) {
    const size_t count =
        std::min(static_cast<size_t>(limits_.logits_rows_max), rows.size() - begin);
    const float* normed = transformer_.ComputeNormed(rows.subspan(begin, count));
    states = std::copy_n(normed, count * n, states);
    begin += count;
  }
}

}  // namespace graft
