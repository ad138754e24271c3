#include "sim/sim_runner.h"

#include <algorithm>
#include <string>
#include <utility>

namespace graft {

SimRunner::SimRunner(const SimRunnerOptions& options, const SimAdapters& adapters,
                     VirtualTime& time, int64_t number, std::function<int64_t()> fetch_ns,
                     SimMachine* machine)
    : time_(time),
      number_(number),
      table_(static_cast<int32_t>(adapters.ranks.size()) + 1),
      loader_(time.clock(), adapters, options.costs, options.loader, std::move(fetch_ns)),
      executor_(options.limits, options.costs, time.clock(), loader_),
      engine_(executor_, table_, loader_, time.clock(), metrics_, options.engine),
      machine_(machine) {}

SimRunner::~SimRunner() {
  executor_.EndNow();
  LeaveMachine();
}

Status SimRunner::Submit(Request request, std::shared_ptr<TokenStream> stream) {
  const std::string hash = request.adapter_hash();
  if (!hash.empty() && !table_.Contains(hash)) {
    RETURN_IF_ERROR(table_.Publish({.path = hash, .hash = hash, .key = hash}));
  }
  RETURN_IF_ERROR(engine_.Submit(std::move(request), std::move(stream)));
  if (engine_.is_running()) {
    engine_.OnSubmitted();
    AskForLoads();
  } else {
    BeginIfIdle();
  }
  return OkStatus();
}

void SimRunner::Cancel(RequestId id) {
  engine_.Cancel(id);
  BeginIfIdle();
}

void SimRunner::BeginIfIdle() {
  if (!engine_.is_running() && engine_.BeginStep()) {
    time_.At(executor_.end_ns(), SimEventKind::kStepEnd, number_);
    if (machine_ != nullptr && !is_on_machine_) {
      is_on_machine_ = true;
      machine_->Begin(this);
    }
  } else if (!engine_.is_running()) {
    LeaveMachine();
  }
  AskForLoads();
}

void SimRunner::LeaveMachine() {
  if (is_on_machine_) machine_->End(this);
  is_on_machine_ = false;
}

bool SimRunner::OnStepEnd() {
  if (!engine_.is_running() || time_.now_ns() < executor_.end_ns()) return false;
  engine_.EndStep();
  BeginIfIdle();
  return true;
}

void SimRunner::OnBusy(int32_t num_busy) {
  const int64_t former_ns = executor_.end_ns();
  executor_.SetBusy(num_busy);
  if (!engine_.is_running() || executor_.end_ns() == former_ns) return;
  time_.At(executor_.end_ns(), SimEventKind::kStepEnd, number_);
}

void SimRunner::OnLoads() {
  asked_ns_ = kNever;
  BeginIfIdle();
}

// While a step runs its end takes in what was loaded.
void SimRunner::AskForLoads() {
  const int64_t next_ns = loader_.next_event_ns();
  if (engine_.is_running() || next_ns >= asked_ns_) return;
  asked_ns_ = next_ns;
  time_.At(next_ns, SimEventKind::kLoads, number_);
}

void SimMachine::Begin(SimRunner* runner) {
  busy_.push_back(runner);
  for (SimRunner* const one : busy_) one->OnBusy(num_busy());
}

void SimMachine::End(SimRunner* runner) {
  busy_.erase(std::find(busy_.begin(), busy_.end(), runner));
  for (SimRunner* const one : busy_) one->OnBusy(num_busy());
}

}  // namespace graft
