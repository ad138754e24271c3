#include "learn/training_run.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <ranges>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/shuffle.h"

namespace graft {
namespace {

constexpr int32_t kLooks = 10;  // times that a run looks at what is held out
constexpr const char* kBest = "best";

template <typename T>
void Hash(const std::vector<T>& values, Sha256* sha) {
  const uint64_t count = values.size();
  sha->Update({reinterpret_cast<const char*>(&count), sizeof(count)});
  sha->Update({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

size_t ExamplesOfPass(const LearnerData& data) {
  return data.training.size() + static_cast<size_t>(data.kept_of_pass);
}

// With the passes that its steps need.
LearnerRates RatesFor(LearnerRates rates, const LearnerData& data) {
  rates.passes = rates.PassesFor(ExamplesOfPass(data));
  return rates;
}

void SetNumbers(const std::vector<float>& numbers, TrainedNumbers& trained) {
  CHECK_EQ(numbers.size(), trained.parameters().size()) << "of another shape";
  std::ranges::copy(numbers, trained.parameters().begin());
  trained.Refresh();
}

}  // namespace

std::string HashOfExamples(const LearnerData& data) {
  Sha256 sha;
  for (const auto* examples : {&data.training, &data.held_out, &data.kept}) {
    for (const TrainingExample& example : *examples) {
      Hash(example.tokens, &sha);
      Hash(example.rows, &sha);
      Hash(example.ids, &sha);
      Hash(example.probabilities, &sha);
    }
    sha.Update(";");
  }
  return sha.HexDigest();
}

TrainingRun::TrainingRun(Trainer& trainer, LearnerData data, const LearnerRates& rates,
                         const TrainedShape& shape, uint64_t seed, std::string identity)
    : trainer_(trainer),
      adapter_(trainer.Add(shape)),
      data_(std::move(data)),
      rates_(RatesFor(rates, data_)),
      seed_(seed),
      identity_(std::move(identity) + "\nexamples " + HashOfExamples(data_)),
      num_steps_(rates_.StepsFor(ExamplesOfPass(data_))) {
  CHECK(!data_.training.empty());
  CHECK_GE(data_.kept.size(), static_cast<size_t>(data_.kept_of_pass));
  for (std::vector<TrainingExample>* examples : {&data_.training, &data_.held_out, &data_.kept}) {
    for (TrainingExample& example : *examples) example.adapter = adapter_;
  }
  if (lora() == nullptr) return;
  if (data_.begins.lora != nullptr) {
    SetNumbers(*data_.begins.lora, *lora());
  } else {
    lora()->Initialize(seed);
  }
}

int64_t TrainingRun::progress() const {
  size_t progress = static_cast<size_t>(state_.step);
  for (const Mean* mean :
       {&state_.before, &state_.held_out_before, &state_.after, &state_.held_out_after}) {
    progress += mean->next;
  }
  return static_cast<int64_t>(progress);
}

Status TrainingRun::Begin() {
  if (state_.has_begun) return Look();
  RETURN_IF_ERROR(LookOn(data_.training, false, &state_.before));
  RETURN_IF_ERROR(LookOn(data_.held_out, false, &state_.held_out_before));
  state_.best_loss = state_.held_out_before.loss().tokens;
  if (!data_.begins.prompt.empty()) {
    SetNumbers(data_.begins.prompt, *prompt());
  } else if (prompt() != nullptr) {
    trainer_.BeginPrompt(adapter_, data_.text);
  }
  // Unlike LoRA of its own, these change the loss before they are trained.
  if (prompt() != nullptr || begins_as_another()) state_.is_look_due = rates_.keeps_best;
  state_.has_begun = true;
  return Look();
}

std::vector<CheckpointPart> TrainingRun::Parameters() {
  std::vector<CheckpointPart> parts;
  if (lora() != nullptr) parts.push_back({"parameters", lora()->parameters()});
  if (prompt() != nullptr) parts.push_back({"prompt", prompt()->parameters()});
  return parts;
}

std::vector<CheckpointPart> TrainingRun::Numbers() {
  std::vector<CheckpointPart> parts = Parameters();
  if (lora() != nullptr) {
    parts.push_back({"first_moments", lora()->first_moments()});
    parts.push_back({"second_moments", lora()->second_moments()});
  }
  if (prompt() != nullptr) {
    parts.push_back({"prompt_first_moments", prompt()->first_moments()});
    parts.push_back({"prompt_second_moments", prompt()->second_moments()});
  }
  return parts;
}

void TrainingRun::Refresh() {
  if (lora() != nullptr) lora()->Refresh();
  if (prompt() != nullptr) prompt()->Refresh();
}

TrainingLoss TrainingRun::Mean::loss() const {
  TrainingLoss loss{.num_rows = num_rows};
  if (num_rows == 0) return loss;
  loss.tokens = tokens / static_cast<double>(num_rows);
  return loss;
}

// Looks at batches of as many examples as the trainer takes, in their order.
Status TrainingRun::LookOn(const std::vector<TrainingExample>& examples, bool with_adapter,
                           Mean* mean) {
  while (mean->next < examples.size()) {
    std::vector<const TrainingExample*> batch;
    int64_t rows = 0;
    for (size_t i = mean->next; i < examples.size(); ++i) {
      rows += static_cast<int64_t>(examples[i].tokens.size()) +
              (prompt() == nullptr || prompt()->kind() != VirtualTokenKind::kEmbedding
                   ? 0
                   : prompt()->num_tokens());
      const bool is_full = rows > trainer_.limits().rows_max ||
                           static_cast<int32_t>(batch.size()) == trainer_.limits().sequences_max;
      if (is_full && !batch.empty()) break;
      batch.push_back(&examples[i]);
    }
    const std::vector<TrainingLoss> losses =
        with_adapter ? trainer_.Evaluate(batch) : trainer_.EvaluateWithout(batch);
    const TrainingLoss& loss = losses[static_cast<size_t>(adapter_)];
    mean->tokens += loss.tokens * static_cast<double>(loss.num_rows);
    mean->num_rows += loss.num_rows;
    mean->next += batch.size();
    if (on_batch_) RETURN_IF_ERROR(on_batch_());
  }
  return OkStatus();
}

int64_t TrainingRun::KeptBefore(int64_t pass) const {
  const double share = static_cast<double>(pass) / rates_.passes;
  return std::llround(share * share * data_.kept_of_pass * rates_.passes);
}

int64_t TrainingRun::VisitsBefore(int64_t pass) const {
  return pass * static_cast<int64_t>(data_.training.size()) + KeptBefore(pass);
}

// The document's examples come in an order of the pass's own. Among them, evenly spread, come the
// kept ones, in their order and then from the first again.
void TrainingRun::OrderPass(int64_t pass) {
  order_pass_ = pass;
  std::vector<int32_t> own(data_.training.size());
  std::iota(own.begin(), own.end(), 0);
  Random random(RandomBits(seed_, static_cast<uint64_t>(pass)));
  Shuffle(own, random);
  const int64_t n = VisitsBefore(pass + 1) - VisitsBefore(pass);
  const int64_t num_kept = n - static_cast<int64_t>(own.size());
  auto kept = static_cast<size_t>(KeptBefore(pass));
  auto next = own.begin();
  order_.clear();
  for (int64_t i = 0; i < n; ++i) {
    const bool is_kept = (i + 1) * num_kept / n > i * num_kept / n;
    order_.push_back(is_kept ? &data_.kept[kept++ % data_.kept.size()]
                             : &data_.training[static_cast<size_t>(*next++)]);
  }
}

void TrainingRun::AddExamples(std::vector<const TrainingExample*>* examples) {
  const int64_t begin = int64_t{state_.step} * rates_.batch;
  const int64_t end = std::min(begin + rates_.batch, VisitsBefore(rates_.passes));
  for (int64_t visit = begin; visit < end; ++visit) {
    int64_t pass = std::max<int64_t>(0, order_pass_);
    while (visit >= VisitsBefore(pass + 1)) ++pass;
    if (pass != order_pass_) OrderPass(pass);
    examples->push_back(order_[static_cast<size_t>(visit - VisitsBefore(pass))]);
  }
}

Trainer::Update TrainingRun::Update() const {
  const auto settings = [&](double rate) {
    return rates_.SettingsAt(rate, state_.step, num_steps_);
  };
  return {adapter_, settings(rates_.learning_rate), settings(rates_.prompt_learning_rate)};
}

void TrainingRun::OnStep(const TrainingLoss& loss) {
  state_.last_loss = loss.tokens;
  ++state_.step;
  const int32_t every = std::max(1, num_steps_ / kLooks);
  state_.is_look_due = rates_.keeps_best && (state_.step % every == 0 || is_done());
  (void)Look();  // A failure is not lost: what is left of the look stays due.
}

Status TrainingRun::Look() {
  if (!state_.is_look_due || data_.held_out.empty()) return OkStatus();
  RETURN_IF_ERROR(LookOn(data_.held_out, true, &state_.look));
  const double loss = std::exchange(state_.look, {}).loss().tokens;
  state_.is_look_due = false;
  if (!(loss < state_.best_loss)) return OkStatus();  // false for a NaN, too
  state_.best_loss = loss;
  state_.best_step = state_.step;
  trainer_.KeepBest(adapter_);
  return OkStatus();
}

Status TrainingRun::Finish() {
  CHECK(is_done());
  RETURN_IF_ERROR(Look());
  if (trainer_.has_best(adapter_)) {
    trainer_.TakeBest(adapter_);
  } else {
    state_.best_step = state_.step;
  }
  RETURN_IF_ERROR(LookOn(data_.training, true, &state_.after));
  RETURN_IF_ERROR(LookOn(data_.held_out, true, &state_.held_out_after));
  scores_ = {.before = state_.before.loss().tokens,
             .after = state_.after.loss().tokens,
             .held_out_before = state_.held_out_before.loss().tokens,
             .held_out_after = state_.held_out_after.loss().tokens,
             .num_rows = state_.after.num_rows,
             .num_held_out_rows = state_.held_out_after.num_rows,
             .best_step = state_.best_step};
  return OkStatus();
}

std::string TrainingRun::StateJson() const {
  const auto json = [](const Mean& mean) {
    return Json::array({mean.tokens, mean.num_rows, mean.next});
  };
  return DumpJson({{"step", state_.step},
                   {"last_loss", state_.last_loss},
                   {"has_begun", state_.has_begun},
                   {"is_look_due", state_.is_look_due},
                   {"best_loss", state_.best_loss},
                   {"best_step", state_.best_step},
                   {"before", json(state_.before)},
                   {"held_out_before", json(state_.held_out_before)},
                   {"look", json(state_.look)},
                   {"after", json(state_.after)},
                   {"held_out_after", json(state_.held_out_after)}});
}

// kInvalidArgument for text that StateJson does not write.
Result<TrainingRun::State> TrainingRun::StateOf(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  bool is_whole = json.is_object();
  const auto take = [&](const char* key, auto* value) {
    const bool is_flag = std::is_same_v<decltype(value), bool*>;
    is_whole = is_whole && json.contains(key) &&
               (is_flag ? json[key].is_boolean() : json[key].is_number());
    if (is_whole) json[key].get_to(*value);
  };
  const auto take_mean = [&](const char* key, Mean* mean) {
    is_whole = is_whole && json.contains(key) && json[key].is_array() && json[key].size() == 3 &&
               std::ranges::all_of(json[key], [](const Json& one) { return one.is_number(); });
    if (!is_whole) return;
    const Json& numbers = json[key];
    *mean = {numbers[0].get<double>(), numbers[1].get<int64_t>(), numbers[2].get<size_t>()};
  };
  State state;
  take("step", &state.step);
  take("last_loss", &state.last_loss);
  take("has_begun", &state.has_begun);
  take("is_look_due", &state.is_look_due);
  take("best_loss", &state.best_loss);
  take("best_step", &state.best_step);
  take_mean("before", &state.before);
  take_mean("held_out_before", &state.held_out_before);
  take_mean("look", &state.look);
  take_mean("after", &state.after);
  take_mean("held_out_after", &state.held_out_after);
  if (!is_whole) return InvalidArgumentError("it is no state of a run");
  return state;
}

Status TrainingRun::SaveCheckpoint(const std::string& path) {
  std::vector<CheckpointPart> parts = Numbers();
  std::vector<float> best = trainer_.best(adapter_);
  if (!best.empty()) parts.push_back({kBest, best});
  return WriteCheckpoint(path, parts, identity_, StateJson());
}

Result<bool> TrainingRun::Resume(const std::string& path) {
  ASSIGN_OR_RETURN(const std::optional<Checkpoint> checkpoint, Checkpoint::Open(path, identity_));
  if (!checkpoint.has_value()) return false;
  Result<State> state = StateOf(checkpoint->state());
  if (!state.ok() || state->step < 0 || state->step > num_steps_) return false;
  std::vector<CheckpointPart> parts = Numbers();
  std::vector<float> best;
  if (checkpoint->Contains(kBest)) {
    for (const CheckpointPart& part : Parameters()) best.resize(best.size() + part.values.size());
    parts.push_back({kBest, best});
  }
  if (!checkpoint->Read(parts).ok()) return false;
  state_ = *state;
  trainer_.set_num_updates(adapter_, state_.step);
  trainer_.set_best(adapter_, std::move(best));
  Refresh();
  return true;
}

void StepTogether(Trainer& trainer, std::span<TrainingRun* const> runs) {
  std::vector<TrainingRun*> going;
  std::vector<const TrainingExample*> examples;
  for (TrainingRun* run : runs) {
    if (run->is_done()) continue;
    going.push_back(run);
    run->AddExamples(&examples);
  }
  if (going.empty()) return;
  const std::vector<TrainingLoss> losses = trainer.Accumulate(examples);
  std::vector<Trainer::Update> updates;
  for (const TrainingRun* run : going) updates.push_back(run->Update());
  trainer.Apply(updates);
  for (TrainingRun* run : going) run->OnStep(losses[static_cast<size_t>(run->adapter())]);
}

}  // namespace graft
