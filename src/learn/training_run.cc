#include "learn/training_run.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/random.h"
#include "base/shuffle.h"

namespace graft {
namespace {

constexpr int32_t kLooks = 10;  // at what is held out, in a run
constexpr const char* kBest = "best";

}  // namespace

TrainingRun::TrainingRun(Trainer& trainer, LearnerData data, const LearnerRates& rates,
                         const TrainedShape& shape, uint64_t seed, std::string identity)
    : trainer_(trainer),
      adapter_(trainer.Add(shape)),
      data_(std::move(data)),
      rates_(rates),
      seed_(seed),
      identity_(std::move(identity)),
      num_steps_(rates.StepsFor(data_.training.size() + static_cast<size_t>(data_.kept_of_pass))) {
  CHECK(!data_.training.empty());
  CHECK_GE(data_.kept.size(), static_cast<size_t>(data_.kept_of_pass));
  for (std::vector<TrainingExample>* examples : {&data_.training, &data_.held_out, &data_.kept}) {
    for (TrainingExample& example : *examples) example.adapter = adapter_;
    if (data_.hidden == HiddenStates::kNone) continue;
    trainer.TakeTeacherStates(*examples, data_.hidden == HiddenStates::kAll);
  }
  if (lora() != nullptr) lora()->Initialize(seed);
}

void TrainingRun::Begin() {
  const TrainingLoss loss = LossOn(data_.training, false);
  const TrainingLoss held_out = LossOn(data_.held_out, false);
  scores_.before = loss.tokens;
  scores_.held_out_before = held_out.tokens;
  best_loss_ = held_out.total();
  if (prompt() == nullptr) return;
  // Which is somewhere already, unlike LoRA.
  trainer_.BeginPrompt(adapter_, data_.text);
  if (rates_.keeps_best) LookAtHeldOut();
}

std::vector<CheckpointPart> TrainingRun::Parameters() {
  std::vector<CheckpointPart> parts;
  if (lora() != nullptr) parts.push_back({"parameters", lora()->parameters()});
  if (prompt() != nullptr) parts.push_back({"prompt", prompt()->parameters()});
  return parts;
}

std::vector<CheckpointPart> TrainingRun::State() {
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

// Batches of as many examples as the trainer takes, in their order.
TrainingLoss TrainingRun::LossOn(const std::vector<TrainingExample>& examples, bool with_adapter) {
  TrainingLoss mean;
  for (size_t begin = 0; begin < examples.size();) {
    std::vector<const TrainingExample*> batch;
    int64_t rows = 0;
    for (size_t i = begin; i < examples.size(); ++i) {
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
    mean.tokens += loss.tokens * static_cast<double>(loss.num_rows);
    mean.hidden += loss.hidden * static_cast<double>(loss.num_rows);
    mean.num_rows += loss.num_rows;
    begin += batch.size();
  }
  if (mean.num_rows == 0) return mean;
  mean.tokens /= static_cast<double>(mean.num_rows);
  mean.hidden /= static_cast<double>(mean.num_rows);
  return mean;
}

int64_t TrainingRun::KeptBefore(int64_t pass) const {
  const double share = static_cast<double>(pass) / rates_.passes;
  return std::llround(share * share * data_.kept_of_pass * rates_.passes);
}

int64_t TrainingRun::VisitsBefore(int64_t pass) const {
  return pass * static_cast<int64_t>(data_.training.size()) + KeptBefore(pass);
}

// The document's in an order of the pass's own, and among them, evenly, those that are kept, which
// come in their order and then again.
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
  const int64_t begin = int64_t{step_} * rates_.batch;
  const int64_t end = std::min(begin + rates_.batch, VisitsBefore(rates_.passes));
  for (int64_t visit = begin; visit < end; ++visit) {
    int64_t pass = std::max<int64_t>(0, order_pass_);
    while (visit >= VisitsBefore(pass + 1)) ++pass;
    if (pass != order_pass_) OrderPass(pass);
    examples->push_back(order_[static_cast<size_t>(visit - VisitsBefore(pass))]);
  }
}

Trainer::Update TrainingRun::Update() const {
  const auto settings = [&](double rate) { return rates_.SettingsAt(rate, step_, num_steps_); };
  return {adapter_, settings(rates_.learning_rate), settings(rates_.prompt_learning_rate)};
}

void TrainingRun::OnStep(const TrainingLoss& loss) {
  last_loss_ = loss.total();
  ++step_;
  const int32_t every = std::max(1, num_steps_ / kLooks);
  if (rates_.keeps_best && (step_ % every == 0 || is_done())) LookAtHeldOut();
}

void TrainingRun::LookAtHeldOut() {
  if (data_.held_out.empty()) return;
  const double loss = LossOn(data_.held_out, true).total();
  if (loss >= best_loss_) return;
  best_loss_ = loss;
  scores_.best_step = step_;
  trainer_.KeepBest(adapter_);
}

void TrainingRun::Finish() {
  CHECK(is_done());
  if (trainer_.has_best(adapter_)) {
    trainer_.TakeBest(adapter_);
  } else {
    scores_.best_step = step_;
  }
  const TrainingLoss loss = LossOn(data_.training, true);
  const TrainingLoss held_out = LossOn(data_.held_out, true);
  scores_.after = loss.tokens;
  scores_.num_rows = loss.num_rows;
  scores_.held_out_after = held_out.tokens;
  scores_.num_held_out_rows = held_out.num_rows;
}

std::string TrainingRun::StateJson() const {
  return DumpJson({{"step", step_},
                   {"last_loss", last_loss_},
                   {"before", scores_.before},
                   {"held_out_before", scores_.held_out_before},
                   {"best_loss", best_loss_},
                   {"best_step", scores_.best_step}});
}

Status TrainingRun::ReadState(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, ParseJson(text));
  for (const char* key :
       {"step", "last_loss", "before", "held_out_before", "best_loss", "best_step"}) {
    if (!json.contains(key) || !json[key].is_number()) {
      return InvalidArgumentError(std::string("no number \"") + key + "\"");
    }
  }
  step_ = json["step"].get<int32_t>();
  if (step_ < 0 || step_ > num_steps_) return InvalidArgumentError("a step that the run has not");
  last_loss_ = json["last_loss"].get<double>();
  scores_.before = json["before"].get<double>();
  scores_.held_out_before = json["held_out_before"].get<double>();
  best_loss_ = json["best_loss"].get<double>();
  scores_.best_step = json["best_step"].get<int32_t>();
  return OkStatus();
}

Status TrainingRun::SaveCheckpoint(const std::string& path) {
  std::vector<CheckpointPart> parts = State();
  std::vector<float> best = trainer_.best(adapter_);
  if (!best.empty()) parts.push_back({kBest, best});
  return WriteCheckpoint(path, parts, identity_, StateJson());
}

Result<bool> TrainingRun::Resume(const std::string& path) {
  ASSIGN_OR_RETURN(const std::optional<Checkpoint> checkpoint, Checkpoint::Open(path, identity_));
  if (!checkpoint.has_value()) return false;
  std::vector<CheckpointPart> parts = State();
  std::vector<float> best;
  if (checkpoint->Contains(kBest)) {
    for (const CheckpointPart& part : Parameters()) best.resize(best.size() + part.values.size());
    parts.push_back({kBest, best});
  }
  RETURN_IF_ERROR(checkpoint->Read(parts));
  RETURN_IF_ERROR(ReadState(checkpoint->state()).WithContext(path));
  trainer_.set_num_updates(adapter_, step_);
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
