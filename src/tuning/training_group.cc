#include "tuning/training_group.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <future>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/log.h"

namespace graft {

TrainingGroup::TrainingGroup(const LearningPlan& plan, std::span<LearningDocument> documents,
                             const LoadedModel& model, const BaseIdentity& base, Trainer& trainer,
                             TrainingHost& host, int checkpoint_seconds)
    : plan_(plan), model_(model), base_(base), trainer_(trainer), host_(host) {
  for (LearningDocument& document : documents) {
    members_.push_back({&document, CheckpointTimer(checkpoint_seconds)});
  }
}

std::string TrainingGroup::NameOf(const Member& member) const {
  return member.document->name.empty() ? "the document" : member.document->name;
}

Status TrainingGroup::Begin() {
  RETURN_IF_ERROR(AddDocuments(plan_.task, model_.config, trainer_));
  for (Member& member : members_) {
    LearningDocument& document = *member.document;
    member.run = std::make_unique<TrainingRun>(
        trainer_, std::move(document.data), RatesOf(plan_), document.shape, plan_.recipe.seed,
        RunIdentity(OriginOf(plan_, document, model_, base_), model_));
  }
  for (Member& member : members_) {
    const LearningDocument& document = *member.document;
    ASSIGN_OR_RETURN(const bool resumed,
                     member.run->Resume(document.resume_from.empty() ? document.checkpoint
                                                                     : document.resume_from));
    host_.OnBegin(NameOf(member), ProgressOf(member), resumed);
    // Its own checkpoint alone: of a step that all make, others have not counted theirs by then.
    member.run->set_on_batch([this, &member] {
      return host_.BetweenBatches(
          [this, &member] { return member.timer.IsDue() ? SaveOne(member) : OkStatus(); });
    });
    member.timer.Reset();
  }
  return OkStatus();
}

Status TrainingGroup::Train() {
  for (Member& member : members_) {
    RETURN_IF_ERROR(host_.Compute([&member] { return member.run->Begin(); }));
  }
  return TrainSteps(*this, host_);
}

TrainingProgress TrainingGroup::ProgressOf(const Member& member) const {
  return {.step = member.run->step(),
          .num_steps = member.run->num_steps(),
          .loss = member.run->last_loss(),
          .looked_at = member.run->progress()};
}

bool TrainingGroup::is_done() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& member) {
    return !member.failed.ok() || member.run->is_done();
  });
}

TrainingProgress TrainingGroup::progress() const {
  TrainingProgress all;
  int32_t num_trained = 0;
  for (const Member& member : members_) {
    if (!member.failed.ok()) continue;
    const TrainingProgress one = ProgressOf(member);
    if (num_trained++ == 0 || one.num_steps - one.step > all.num_steps - all.step) {
      all.step = one.step;
      all.num_steps = one.num_steps;
    }
    all.loss += one.loss;
    all.looked_at += one.looked_at;
  }
  all.loss /= std::max(1, num_trained);
  return all;
}

Status TrainingGroup::Step() {
  std::vector<TrainingRun*> runs;
  for (const Member& member : members_) {
    if (member.failed.ok()) runs.push_back(member.run.get());
  }
  StepTogether(trainer_, runs);
  for (TrainingRun* const run : runs) RETURN_IF_ERROR(run->Look());
  return CheckLosses();
}

void TrainingGroup::Drop(Member& member, Status why) {
  member.failed = std::move(why);
  std::error_code ignored;
  std::filesystem::remove(member.document->checkpoint, ignored);  // it would end the same
}

// What has come to be no number stays so, whatever steps are left.
Status TrainingGroup::CheckLosses() {
  for (Member& member : members_) {
    if (!member.failed.ok() || std::isfinite(member.run->last_loss())) continue;
    Drop(member,
         FailedPreconditionError(NameOf(member) + " was not learned: at step " +
                                 std::to_string(member.run->step()) +
                                 " its loss is no number any more; " + plan_.words.lower_rates));
  }
  const bool are_others = std::any_of(members_.begin(), members_.end(),
                                      [](const auto& one) { return one.failed.ok(); });
  return are_others ? OkStatus() : members_.front().failed;
}

bool TrainingGroup::is_save_due() const {
  return std::any_of(members_.begin(), members_.end(), [](const Member& member) {
    return member.failed.ok() && member.timer.IsDue();
  });
}

Status TrainingGroup::SaveOne(Member& member) {
  const Status saved = member.run->SaveCheckpoint(member.document->checkpoint);
  member.timer.Reset();
  return host_.OnCheckpoint(NameOf(member), ProgressOf(member), saved);
}

Status TrainingGroup::Save() {
  for (Member& member : members_) {
    if (member.failed.ok()) RETURN_IF_ERROR(SaveOne(member));
  }
  return OkStatus();
}

Status TrainingGroup::Finish(const Write& write) {
  Status first;
  const auto note = [&first](Status status) {
    if (first.ok()) first = std::move(status);
  };
  std::future<Status> written;
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    TrainingRun& run = *member.run;
    if (member.failed.ok()) {
      RETURN_IF_ERROR(host_.Compute([&run] { return run.Finish(); }));
    }
    const LearnedAdapter adapter = {run.lora(), run.prompt()};  // in the host's memory from here
    if (written.valid()) note(written.get());
    if (member.failed.ok()) {
      const Status learned = CheckLearned(NameOf(member), run.scores(), plan_.words.lower_rates);
      if (!learned.ok()) Drop(member, learned);
    }
    if (!member.failed.ok()) {
      note(member.failed);
      continue;
    }
    const auto hand_on = [&write, &run, i, adapter] { return write(i, run, adapter); };
    if (i + 1 == members_.size()) {
      note(hand_on());
    } else {
      written = std::async(std::launch::async, hand_on);
    }
  }
  if (written.valid()) note(written.get());
  return first;
}

OrderedJson TrainingGroup::ProvenanceOf(size_t place, const TrainingRun& run) const {
  OrderedJson provenance = OriginOf(plan_, *members_[place].document, model_, base_);
  provenance["scores"] = ScoresJson(run.scores());
  return provenance;
}

Status TrainingHost::OnCheckpoint(const std::string& name, const TrainingProgress& at,
                                  const Status& saved) {
  if (!saved.ok()) LOG_WARN("{}: no checkpoint at step {}: {}", name, at.step, saved.message());
  return OkStatus();
}

bool CheckpointTimer::IsDue() const {
  return SteadyClock::Get().NowNs() - saved_ns_ >= int64_t{seconds_} * 1'000'000'000;
}

Status TrainSteps(TrainedSteps& trained, TrainingHost& host) {
  host.OnSteps(trained.progress());
  while (!trained.is_done()) {
    RETURN_IF_ERROR(host.Compute([&trained] { return trained.Step(); }));
    RETURN_IF_ERROR(host.OnStep(trained.progress()));
    if (trained.is_done() || trained.is_save_due()) RETURN_IF_ERROR(trained.Save());
  }
  return OkStatus();
}

}  // namespace graft
