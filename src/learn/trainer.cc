#include "learn/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "kernels/adamw/adamw.h"
#include "kernels/token_loss/token_loss.h"

namespace graft {

TrainingExample NextTokenExample(std::vector<int32_t> tokens, int32_t adapter) {
  TrainingExample example;
  example.adapter = adapter;
  CHECK_GE(tokens.size(), size_t{2}) << "nothing comes next";
  example.rows.resize(tokens.size() - 1);
  std::iota(example.rows.begin(), example.rows.end(), 0);
  example.ids.assign(tokens.begin() + 1, tokens.end());
  example.probabilities.assign(example.rows.size(), 1.0f);
  example.tokens = std::move(tokens);
  return example;
}

Trainer::Trainer(const ModelConfig& config, const ModelWeights& weights,
                 const TrainingLimits& limits, Stream& stream)
    : config_(config),
      limits_(limits),
      dtype_(weights.dtype),
      stream_(stream),
      transformer_(config, weights, limits, stream) {}

int32_t Trainer::Add(int32_t rank, float scale) {
  adapters_.push_back({std::make_unique<TrainedLora>(config_, rank, scale, dtype_), 0});
  return static_cast<int32_t>(adapters_.size()) - 1;
}

std::vector<TrainingLoss> Trainer::Accumulate(std::span<const TrainingExample* const> examples) {
  for (const TrainingExample* example : examples) adapter(example->adapter).ZeroGradients();
  return Run(examples, true);
}

std::vector<TrainingLoss> Trainer::Evaluate(std::span<const TrainingExample* const> examples) {
  return Run(examples, false);
}

std::vector<TrainingLoss> Trainer::Run(std::span<const TrainingExample* const> examples,
                                       bool backward) {
  std::vector<const TrainingExample*> sorted(examples.begin(), examples.end());
  for (const TrainingExample* example : examples) {
    CHECK_EQ(example->num_choices, examples[0]->num_choices);
    CHECK_LT(static_cast<size_t>(example->adapter), adapters_.size());
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* a, const auto* b) { return a->adapter < b->adapter; });
  std::vector<TrainingSequence> sequences;
  targets_.clear();
  int32_t first_row = 0;
  for (const TrainingExample* example : sorted) {
    sequences.push_back({example->tokens, example->adapter});
    for (size_t i = 0; i < example->rows.size(); ++i) {
      targets_.push_back({example, static_cast<int32_t>(i), first_row + example->rows[i]});
    }
    first_row += static_cast<int32_t>(example->tokens.size());
  }
  const TrainingBatch batch(sequences, transformer_.page_tokens());
  std::vector<TrainedLora*> loras;
  for (const Adapter& adapter : adapters_) loras.push_back(adapter.lora.get());
  std::vector<TrainingLoss> losses(adapters_.size());
  CountTargets(losses);
  transformer_.Forward(batch, loras);
  if (backward) transformer_.ZeroGradients();
  for (size_t begin = 0; begin < targets_.size();) {
    const size_t count =
        std::min<size_t>(static_cast<size_t>(limits_.logits_rows_max), targets_.size() - begin);
    RunHead(std::span(targets_).subspan(begin, count), backward, losses);
    begin += count;
  }
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    AddDistance(targets_, layer, transformer_.hidden(layer), false, nullptr, losses);
  }
  if (!backward) return losses;
  std::vector<TrainingLoss> counted(adapters_.size());
  transformer_.Backward([&](int32_t layer, float* d_hidden) {
    AddDistance(targets_, layer, transformer_.hidden(layer), false, d_hidden, counted);
  });
  return losses;
}

void Trainer::CountTargets(std::vector<TrainingLoss>& losses) {
  const size_t num_boundaries = static_cast<size_t>(config_.num_layers) + 1;
  teacher_sums_.assign(num_boundaries, std::vector<double>(adapters_.size()));
  for (const Target& target : targets_) {
    const TrainingExample& example = *target.example;
    ++losses[static_cast<size_t>(example.adapter)].num_rows;
    if (example.hidden.empty()) continue;
    const auto n = static_cast<size_t>(config_.hidden_size);
    CHECK_EQ(example.hidden.size(), num_boundaries * example.rows.size() * n);
    for (size_t boundary = 0; boundary < num_boundaries; ++boundary) {
      const float* states =
          example.hidden.data() +
          (boundary * example.rows.size() + static_cast<size_t>(target.index)) * n;
      double& sum = teacher_sums_[boundary][static_cast<size_t>(example.adapter)];
      for (size_t i = 0; i < n; ++i) sum += std::fabs(static_cast<double>(states[i]));
    }
  }
}

void Trainer::RunHead(std::span<const Target> targets, bool backward,
                      std::vector<TrainingLoss>& losses) {
  std::vector<int32_t> rows, ids;
  std::vector<float> probabilities, weights;
  const int32_t num_choices = targets[0].example->num_choices;
  for (const Target& target : targets) {
    const TrainingExample& example = *target.example;
    rows.push_back(target.row);
    const auto begin = static_cast<size_t>(target.index) * static_cast<size_t>(num_choices);
    for (size_t k = begin; k < begin + static_cast<size_t>(num_choices); ++k) {
      ids.push_back(example.ids[k]);
      probabilities.push_back(example.probabilities[k]);
    }
    weights.push_back(1.0f /
                      static_cast<float>(losses[static_cast<size_t>(example.adapter)].num_rows));
  }
  const TrainingTransformer::Head head = transformer_.ComputeHead(rows);
  std::vector<double> row_losses(rows.size());
  TokenLoss({.logits = head.logits,
             .num_rows = static_cast<int64_t>(rows.size()),
             .vocab_size = config_.vocab_size,
             .num_choices = num_choices,
             .ids = ids.data(),
             .probabilities = probabilities.data(),
             .weights = weights.data(),
             .losses = row_losses.data()},
            stream_);
  for (size_t i = 0; i < targets.size(); ++i) {
    TrainingLoss& loss = losses[static_cast<size_t>(targets[i].example->adapter)];
    loss.tokens += row_losses[i] / static_cast<double>(loss.num_rows);
  }
  AddDistance(targets, config_.num_layers, head.normed, true, backward ? head.d_normed : nullptr,
              losses);
  if (backward) transformer_.BackwardHead(rows);
}

void Trainer::AddDistance(std::span<const Target> targets, int32_t boundary, const float* states,
                          bool packed, float* gradients, std::vector<TrainingLoss>& losses) const {
  const auto n = static_cast<size_t>(config_.hidden_size);
  for (size_t t = 0; t < targets.size(); ++t) {
    const TrainingExample& example = *targets[t].example;
    if (example.hidden.empty()) continue;
    const auto adapter = static_cast<size_t>(example.adapter);
    const auto at = static_cast<size_t>(boundary);
    const double share =
        1.0 / teacher_sums_[at][adapter] / static_cast<double>(config_.num_layers + 1);
    const float* taught = example.hidden.data() +
                          (at * example.rows.size() + static_cast<size_t>(targets[t].index)) * n;
    const size_t row = (packed ? t : static_cast<size_t>(targets[t].row)) * n;
    double sum = 0.0;
    for (size_t i = 0; i < n; ++i) {
      const float difference = states[row + i] - taught[i];
      sum += std::fabs(static_cast<double>(difference));
      if (gradients == nullptr || difference == 0.0f) continue;
      gradients[row + i] += static_cast<float>(difference > 0.0f ? share : -share);
    }
    losses[adapter].hidden += sum * share;
  }
}

void Trainer::Apply(std::span<const Update> updates) {
  std::vector<AdamWItem> items;
  std::vector<double> norms(updates.size());
  for (const Update& update : updates) {
    Adapter& adapter = adapters_[static_cast<size_t>(update.adapter)];
    items.push_back({.parameters = adapter.lora->parameters().data(),
                     .gradients = adapter.lora->gradients().data(),
                     .first_moments = adapter.lora->first_moments().data(),
                     .second_moments = adapter.lora->second_moments().data(),
                     .n = static_cast<int64_t>(adapter.lora->parameters().size()),
                     .step = ++adapter.num_updates,
                     .learning_rate = update.settings.learning_rate,
                     .weight_decay = update.settings.weight_decay,
                     .norm_max = update.settings.norm_max,
                     .norm = &norms[items.size()]});
  }
  AdamW({items.data(), static_cast<int32_t>(items.size())}, stream_);
  for (const Update& update : updates) adapter(update.adapter).Refresh();
}

}  // namespace graft
