// The numbers of the adapters that learn, where they are computed with.
#include "base/check.h"
#include "kernels/adamw/adamw.h"
#include "learn/training_walker.h"

namespace graft {

void TrainingWalker::FollowAdapters() {
  const bool is_new = adapters_.size() != followed_.size();
  for (size_t i = followed_.size(); i < adapters_.size(); ++i) {
    const auto& [lora, prompt, is_frozen] = adapters_[i];
    CHECK(lora == nullptr || lora->rank() <= limits_.rank_max);
    OnThisDevice& here = followed_.emplace_back();
    if (lora != nullptr) here.lora = std::make_unique<DeviceLora>(*lora, stream_);
    if (prompt != nullptr) here.prompt = std::make_unique<DeviceMasters>(*prompt, stream_);
  }
  const auto num_adapters = static_cast<int32_t>(adapters_.size());
  for (int32_t i = 0; i < num_adapters; ++i) {
    for (DeviceMasters* masters : MastersOf(i)) masters->Follow();
  }
  if (!is_new) return;
  ListMatrices();
  ListPrompts();
  const int32_t num_items = 2 * num_adapters;  // LoRA and virtual tokens
  norms_ = Buffer(num_items * int64_t{sizeof(double)}, stream_.device);
  adamw_scratch_ = Buffer(AdamWScratchDoubles(stream_.device, num_items) * int64_t{sizeof(double)},
                          stream_.device);
}

void TrainingWalker::ListMatrices() {
  std::vector<LoraMatrix> matrices, swapped, stacked;
  const std::vector<LoraMatrix> none(static_cast<size_t>(context_.shape.num_layer_matrices()));
  learning_.can_stack =
      !stream_.device.is_cpu() && kLoraSlicesMax * limits_.rank_max <= kLoraRankMax;
  // All that learn must have LoRA, and no frozen one: gradients are rounded in each batch or none.
  learning_.can_round = true;
  for (size_t i = 0; i < followed_.size(); ++i) {
    const DeviceLora* const lora = followed_[i].lora.get();
    const bool is_frozen = adapters_[i].is_frozen;
    const auto add = [&](std::vector<LoraMatrix>& all, const std::vector<LoraMatrix>& its) {
      all.insert(all.end(), its.begin(), its.end());
    };
    add(matrices, lora == nullptr ? none : lora->matrices());
    add(swapped, lora == nullptr ? none : lora->swapped());
    add(stacked, lora == nullptr ? none : lora->stacked());
    learning_.can_round &= (lora != nullptr) != is_frozen;
    learning_.can_stack &= lora == nullptr || is_frozen || lora->rank() == limits_.rank_max;
  }
  matrices_ = OnDevice(matrices, stream_);
  swapped_ = OnDevice(swapped, stream_);
  stacked_ = OnDevice(stacked, stream_);
  learning_.swapped = swapped_.as<LoraMatrix>();
  learning_.stacked = stacked_.as<LoraMatrix>();
}

std::vector<DeviceMasters*> TrainingWalker::MastersOf(int32_t adapter) {
  const auto index = static_cast<size_t>(adapter);
  CHECK_LT(index, followed_.size());
  std::vector<DeviceMasters*> masters;
  if (followed_[index].lora != nullptr) masters.push_back(&followed_[index].lora->masters());
  if (followed_[index].prompt != nullptr) masters.push_back(followed_[index].prompt.get());
  return masters;
}

void TrainingWalker::BeginGradients(std::span<const int32_t> adapters) {
  FollowAdapters();
  // Zeroing is short. As a piece of its own it would wait for a turn, and the host for its end.
  for (const int32_t adapter : adapters) {
    if (adapters_[static_cast<size_t>(adapter)].is_frozen) continue;
    for (DeviceMasters* masters : MastersOf(adapter)) masters->BeginGradients();
  }
}

void TrainingWalker::Apply(std::span<const Update> updates) {
  std::vector<AdamWItem> items;
  std::vector<DeviceMasters*> moved;
  const auto add = [&](DeviceMasters* masters, int64_t num_frozen, int32_t step,
                       const UpdateSettings& settings) {
    if (masters == nullptr) return;
    AdamWItem item = masters->Item(num_frozen);
    if (item.n == 0) return;
    item.step = step;
    item.learning_rate = settings.learning_rate;
    item.weight_decay = settings.weight_decay;
    item.norm_max = settings.norm_max;
    item.norm = norms_.as<double>() + items.size();
    items.push_back(item);
    moved.push_back(masters);
  };
  for (const auto& [adapter, step, settings, prompt_settings] : updates) {
    const auto index = static_cast<size_t>(adapter);
    const TrainedPrompt* const prompt = adapters_[index].prompt;
    DeviceLora* const lora = followed_[index].lora.get();
    add(lora == nullptr ? nullptr : &lora->masters(), 0, step, settings);
    add(followed_[index].prompt.get(), prompt == nullptr ? 0 : prompt->num_frozen(), step,
        prompt_settings);
  }
  const TrainingPieces::Scope piece(pieces_);
  AdamW({items.data(), static_cast<int32_t>(items.size()), adamw_scratch_.as<double>()}, stream_);
  pieces_.PauseCpu();
  for (DeviceMasters* masters : moved) masters->Round();
  pieces_.PauseCpu();
}

void TrainingWalker::Fetch(int32_t adapter) {
  if (static_cast<size_t>(adapter) >= followed_.size()) return;
  for (DeviceMasters* masters : MastersOf(adapter)) masters->Fetch();
}

void TrainingWalker::KeepBest(int32_t adapter) {
  FollowAdapters();
  for (DeviceMasters* masters : MastersOf(adapter)) masters->KeepBest();
}

void TrainingWalker::TakeBest(int32_t adapter) {
  const TrainingPieces::Scope piece(pieces_);
  for (DeviceMasters* masters : MastersOf(adapter)) masters->TakeBest();
}

std::vector<float> TrainingWalker::FetchBest(int32_t adapter) {
  std::vector<float> best;
  for (DeviceMasters* masters : MastersOf(adapter)) masters->FetchBest(&best);
  return best;
}

}  // namespace graft
