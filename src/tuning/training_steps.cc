#include "tuning/training_steps.h"

#include "base/log.h"

namespace graft {

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
