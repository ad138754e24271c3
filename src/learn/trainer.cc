#include "learn/trainer.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"

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
                 const TrainingLimits& limits, Stream& stream, std::function<void()> pause,
                 DeviceTurns* turns)
    : config_(config),
      limits_(limits),
      dtype_(weights.types.operands),
      stream_(stream),
      device_(MakeTrainingDevice(config, weights, limits, stream, std::move(pause), turns)) {}

TrainedLora* Trainer::lora(int32_t index) {
  TrainedLora* const lora = adapters_[static_cast<size_t>(index)].lora.get();
  if (lora != nullptr) device_->Fetch(index);
  return lora;
}

TrainedPrompt* Trainer::prompt(int32_t index) {
  TrainedPrompt* const prompt = adapters_[static_cast<size_t>(index)].prompt.get();
  if (prompt != nullptr) device_->Fetch(index);
  return prompt;
}

int32_t Trainer::Add(const TrainedShape& shape) {
  CHECK(shape.rank > 0 || shape.virtual_tokens > 0) << "an adapter that has nothing to learn";
  Adapter adapter{.is_frozen = shape.is_frozen};
  if (shape.rank > 0) {
    adapter.lora = std::make_unique<TrainedLora>(config_, shape.rank, shape.scale, dtype_);
  }
  if (shape.virtual_tokens > 0) {
    adapter.prompt = std::make_unique<TrainedPrompt>(config_, shape.kind, shape.virtual_tokens,
                                                     dtype_, stream_.device);
  }
  device_->Add({adapter.lora.get(), adapter.prompt.get(), adapter.is_frozen});
  adapters_.push_back(std::move(adapter));
  return static_cast<int32_t>(adapters_.size()) - 1;
}

void Trainer::BeginPrompt(int32_t index, std::span<const int32_t> text) {
  TrainedPrompt& prompt = *this->prompt(index);
  const auto n = static_cast<size_t>(prompt.num_tokens());
  CHECK_GE(text.size(), n);
  std::vector<int32_t> tokens(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n));
  if (prompt.kind() == VirtualTokenKind::kEmbedding) {
    for (size_t i = 0; i < n; ++i) tokens[i] = text[i * text.size() / n];
  }
  const TrainingSequence sequence{.tokens = tokens};
  device_->BeginPrompt(TrainingBatch({&sequence, 1}, device_->page_tokens()), prompt);
  prompt.Refresh();
}

std::vector<TrainingLoss> Trainer::Accumulate(std::span<const TrainingExample* const> examples) {
  std::set<int32_t> named;
  for (const TrainingExample* example : examples) {
    for (const int32_t index : {example->adapter, example->prompt}) {
      if (index >= 0) named.insert(index);
    }
  }
  device_->BeginGradients(std::vector<int32_t>(named.begin(), named.end()));
  return Run(examples, true, true);
}

std::pair<double, double> Trainer::AccumulateTwo(std::span<const TrainingExample* const> examples,
                                                 size_t count) {
  Accumulate(examples);
  const std::set<const TrainingExample*> first(
      examples.begin(), examples.begin() + static_cast<std::ptrdiff_t>(count));
  std::pair<double, double> sums;
  std::pair<int64_t, int64_t> rows;
  for (size_t i = 0; i < targets_.size(); ++i) {
    const bool is_first = first.contains(targets_[i].example);
    (is_first ? sums.first : sums.second) += row_losses_[i];
    ++(is_first ? rows.first : rows.second);
  }
  if (rows.first > 0) sums.first /= static_cast<double>(rows.first);
  if (rows.second > 0) sums.second /= static_cast<double>(rows.second);
  return sums;
}

std::vector<TrainingLoss> Trainer::Evaluate(std::span<const TrainingExample* const> examples) {
  return Run(examples, false, true);
}

std::vector<TrainingLoss> Trainer::EvaluateWithout(
    std::span<const TrainingExample* const> examples) {
  return Run(examples, false, false);
}

// The document's virtual tokens stand in front if the adapter that learns has none.
TrainingSequence Trainer::SequenceOf(const TrainingExample& example, int32_t adapter) const {
  const auto has_lora = [&](int32_t index) {
    return index >= 0 && adapters_[static_cast<size_t>(index)].lora != nullptr;
  };
  TrainingSequence sequence{.tokens = example.tokens,
                            .adapter = has_lora(adapter) ? adapter : -1,
                            .document = has_lora(example.document) ? example.document : -1};
  CHECK(example.document < 0 || adapters_[static_cast<size_t>(example.document)].is_frozen)
      << "documents learn nothing beside what learns";
  for (const int32_t index : {example.prompt, example.document, adapter}) {
    if (index < 0 || (example.prompt >= 0 && index != example.prompt)) continue;
    const TrainedPrompt* const prompt = adapters_[static_cast<size_t>(index)].prompt.get();
    if (prompt == nullptr) continue;
    CHECK_LT(sequence.prompt.adapter, 0) << "two prompts in front of one sequence";
    CHECK_LE(example.prompt_tokens, prompt->num_tokens());
    sequence.prompt = {index, prompt->kind(),
                       example.prompt_tokens > 0 ? example.prompt_tokens : prompt->num_tokens()};
  }
  return sequence;
}

std::vector<TrainingLoss> Trainer::Run(std::span<const TrainingExample* const> examples,
                                       bool backward, bool with_adapters) {
  std::vector<const TrainingExample*> sorted(examples.begin(), examples.end());
  for (const TrainingExample* example : examples) {
    CHECK_EQ(example->num_choices, examples[0]->num_choices);
    CHECK_LT(static_cast<size_t>(example->adapter), adapters_.size());
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto* a, const auto* b) { return a->adapter < b->adapter; });
  std::vector<TrainingLoss> losses(adapters_.size());
  for (std::span<const TrainingExample* const> left = sorted; !left.empty();) {
    const size_t count = GroupOf(left, with_adapters);
    RunGroup(left.first(count), backward, with_adapters, losses);
    left = left.subspan(count);
  }
  return losses;
}

size_t Trainer::GroupOf(std::span<const TrainingExample* const> sorted, bool with_adapters) const {
  size_t count = 0;  // examples of whole adapters so far
  int64_t rows = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    rows += SequenceOf(*sorted[i], with_adapters ? sorted[i]->adapter : -1).num_rows();
    const bool fits = rows <= limits_.rows_max && std::cmp_less(i, limits_.sequences_max);
    if (!fits && count > 0) return count;
    const bool ends = i + 1 == sorted.size() || sorted[i + 1]->adapter != sorted[i]->adapter;
    if (ends) count = i + 1;
  }
  return count;
}

void Trainer::RunGroup(std::span<const TrainingExample* const> sorted, bool backward,
                       bool with_adapters, std::vector<TrainingLoss>& losses) {
  std::vector<TrainingSequence> sequences;
  targets_.clear();
  int32_t first_row = 0;
  for (const TrainingExample* example : sorted) {
    sequences.push_back(SequenceOf(*example, with_adapters ? example->adapter : -1));
    const int32_t before = sequences.back().num_before();
    for (size_t i = 0; i < example->rows.size(); ++i) {
      CHECK_GE(before + example->rows[i], 0) << "nothing stands before the first token";
      targets_.push_back({example, static_cast<int32_t>(i), first_row + before + example->rows[i]});
    }
    first_row += sequences.back().num_rows();
  }
  if (targets_.empty()) return;
  for (const Target& target : targets_) {
    ++losses[static_cast<size_t>(target.example->adapter)].num_rows;
  }
  const TargetArrays arrays = ArraysOf(targets_, losses);
  row_losses_ = device_->Run(TrainingBatch(sequences, device_->page_tokens()),
                             arrays.AsTargets(sorted[0]->num_choices), backward);
  AddTokenLosses(targets_, row_losses_, losses);
}

Trainer::TargetArrays Trainer::ArraysOf(std::span<const Target> targets,
                                        const std::vector<TrainingLoss>& losses) {
  TargetArrays arrays;
  for (const Target& target : targets) {
    const TrainingExample& example = *target.example;
    arrays.rows.push_back(target.row);
    const auto num_choices = static_cast<size_t>(example.num_choices);
    const auto begin = static_cast<size_t>(target.index) * num_choices;
    for (size_t k = begin; k < begin + num_choices; ++k) {
      arrays.ids.push_back(example.ids[k]);
      arrays.probabilities.push_back(example.probabilities[k]);
    }
    arrays.weights.push_back(
        example.weight / static_cast<float>(losses[static_cast<size_t>(example.adapter)].num_rows));
  }
  return arrays;
}

void Trainer::AddTokenLosses(std::span<const Target> targets, std::span<const double> row_losses,
                             std::vector<TrainingLoss>& losses) {
  for (size_t i = 0; i < targets.size(); ++i) {
    TrainingLoss& loss = losses[static_cast<size_t>(targets[i].example->adapter)];
    loss.tokens += row_losses[i] / static_cast<double>(loss.num_rows);
  }
}

std::vector<std::span<float>> Trainer::NumbersOf(int32_t index) {
  std::vector<std::span<float>> numbers;
  if (TrainedLora* const trained = lora(index)) numbers.push_back(trained->parameters());
  if (TrainedPrompt* const trained = prompt(index)) numbers.push_back(trained->parameters());
  return numbers;
}

void Trainer::KeepBest(int32_t index) {
  Adapter& adapter = adapters_[static_cast<size_t>(index)];
  adapter.best.clear();
  adapter.device_has_best = true;
  device_->KeepBest(index);
}

bool Trainer::has_best(int32_t index) const {
  const Adapter& adapter = adapters_[static_cast<size_t>(index)];
  return adapter.device_has_best || !adapter.best.empty();
}

void Trainer::TakeBest(int32_t index) {
  CHECK(has_best(index));
  Adapter& adapter = adapters_[static_cast<size_t>(index)];
  if (adapter.device_has_best) return device_->TakeBest(index);
  const float* from = adapter.best.data();
  for (const std::span<float> numbers : NumbersOf(index)) {
    std::copy_n(from, numbers.size(), numbers.begin());
    from += numbers.size();
  }
  if (adapter.lora != nullptr) adapter.lora->Refresh();
  if (adapter.prompt != nullptr) adapter.prompt->Refresh();
}

std::vector<float> Trainer::best(int32_t index) {
  const Adapter& adapter = adapters_[static_cast<size_t>(index)];
  return adapter.device_has_best ? device_->FetchBest(index) : adapter.best;
}

void Trainer::set_best(int32_t index, std::vector<float> numbers) {
  Adapter& adapter = adapters_[static_cast<size_t>(index)];
  adapter.best = std::move(numbers);
  adapter.device_has_best = false;
}

void Trainer::Apply(std::span<const Update> updates) {
  std::vector<TrainingDevice::Update> steps;
  for (const Update& update : updates) {
    Adapter& adapter = adapters_[static_cast<size_t>(update.adapter)];
    CHECK(!adapter.is_frozen);
    steps.push_back(
        {update.adapter, ++adapter.num_updates, update.settings, update.prompt_settings});
  }
  device_->Apply(steps);
}

}  // namespace graft
