// What happens to a hostile cluster, and when it ends.
#include <utility>

#include "hostile/hostile_cluster.h"

namespace graft {
namespace {

constexpr int64_t kFaultMsNs = 1'000'000;
constexpr int64_t kFaultEveryNs = 200 * kFaultMsNs;
constexpr int64_t kDrainedNs = 800 * kFaultMsNs;
constexpr double kSlownessMax = 20.0;

}  // namespace

void HostileCluster::Fault() {
  if (is_healed_) return;
  switch (Draw(10)) {
    case 0:
    case 1:
      EndAny(/*of_frontends=*/false);
      break;
    case 2:
      StopAny(/*of_frontends=*/false);
      break;
    case 3:
      CutAny();
      break;
    case 4:
      if (network_.BreakAny()) findings_.Note("a stream breaks");
      break;
    case 5:
      SlowAny();
      break;
    case 6:
      DrainAny();
      break;
    case 7:
      StopAny(/*of_frontends=*/true);
      break;
    case 8:
      SwitchAny();
      break;
    default:
      if (Draw(3) == 0) EndAny(/*of_frontends=*/true);
  }
  loop_.After(static_cast<int64_t>(random_.Exponential() * kFaultEveryNs), [this] { Fault(); });
}

void HostileCluster::EndAny(bool of_frontends) {
  const auto ending = static_cast<Ending>(Draw(3));
  if (of_frontends) {
    EndFrontend(static_cast<size_t>(Draw(std::ssize(frontends_))), ending);
  } else {
    EndRunner(static_cast<size_t>(Draw(std::ssize(runners_))), ending);
  }
}

// For less than what counts as silence, or more.
void HostileCluster::StopAny(bool of_frontends) {
  const auto idx =
      static_cast<size_t>(Draw(of_frontends ? std::ssize(frontends_) : std::ssize(runners_)));
  const int64_t lasts_ns = Draw(Draw(2) == 0 ? 500 : 4000) * kFaultMsNs;
  const int64_t run = runners_[of_frontends ? 0 : idx].num_runs;
  if (of_frontends) {
    SimProcess* const process = frontends_[idx].process.get();
    if (process == nullptr) return;
    process->Stop();
    // Another may run there by then, which goes on anyway.
    loop_.After(lasts_ns, [this, idx] {
      if (frontends_[idx].process != nullptr) frontends_[idx].process->Continue();
    });
  } else {
    if (runners_[idx].runner == nullptr) return;
    runners_[idx].runner->process().Stop();
    loop_.After(lasts_ns, [this, idx, run] {
      if (runners_[idx].runner != nullptr && runners_[idx].num_runs == run) {
        runners_[idx].runner->process().Continue();
      }
    });
  }
  findings_.Note("{} {} stops for {} ms", of_frontends ? "frontend" : "runner", idx,
                 lasts_ns / kFaultMsNs);
}

// One way or both, between two machines or a frontend and all runners.
void HostileCluster::CutAny() {
  const auto frontend = static_cast<int32_t>(Draw(std::ssize(frontends_)));
  const auto only = static_cast<int32_t>(Draw(std::ssize(runners_)));
  const bool is_from_all = Draw(4) == 0;
  const int64_t ways = Draw(3);
  const int64_t lasts_ns = Draw(Draw(2) == 0 ? 600 : 5000) * kFaultMsNs;
  for (int32_t runner = 0; runner < static_cast<int32_t>(runners_.size()); ++runner) {
    if (!is_from_all && runner != only) continue;
    findings_.Note("frontend {} and runner {} are cut apart, {}, for {} ms", frontend, runner, ways,
                   lasts_ns / kFaultMsNs);
    if (ways != 1) network_.Cut(frontend, runner, Way::kToRunner);
    if (ways != 2) network_.Cut(frontend, runner, Way::kToFrontend);
    loop_.After(lasts_ns, [this, frontend, runner] { network_.Heal(frontend, runner); });
  }
}

void HostileCluster::SlowAny() {
  const auto idx = static_cast<size_t>(Draw(std::ssize(runners_)));
  if (runners_[idx].runner == nullptr) return;
  const double slowness = 1.0 + random_.Uniform() * kSlownessMax;
  findings_.Note("runner {} is {:.1f} times as slow", idx, slowness);
  runners_[idx].runner->executor().set_slowness(slowness);
  loop_.After(Draw(2000) * kFaultMsNs, [this, idx] {
    if (runners_[idx].runner != nullptr) runners_[idx].runner->executor().set_slowness(1.0);
  });
}

// It ends in order, whatever it has left by then, and another comes in its place.
void HostileCluster::DrainAny() {
  const auto idx = static_cast<size_t>(Draw(std::ssize(runners_)));
  RunnerMachine& machine = runners_[idx];
  if (machine.runner == nullptr) return;
  findings_.Note("runner {} drains", idx);
  machine.runner->process().Run([this, idx] { runners_[idx].runner->BeginDrain(); });
  loop_.After(kDrainedNs, [this, idx, run = machine.num_runs] {
    RunnerMachine& one = runners_[idx];
    if (one.num_runs != run) return;
    if (!one.runner->process().is_stopped()) one.runner->EndInOrder();
    EndRunner(idx, Ending::kWritten);
  });
}

// The first of each pool keep all that they have.
void HostileCluster::SwitchAny() {
  const auto idx = static_cast<size_t>(Draw(std::ssize(runners_)));
  const auto adapter = static_cast<int32_t>(Draw(std::ssize(adapters_.ranks)));
  if (static_cast<int32_t>(idx) < num_arithmetics_ || runners_[idx].runner == nullptr) return;
  findings_.Note("runner {} loads or unloads adapter {}", idx, adapter);
  runners_[idx].runner->process().Run(
      [this, idx, adapter] { runners_[idx].runner->SwitchAdapter(adapter); });
}

// From here on nothing happens but what poison does.
void HostileCluster::Heal() {
  is_healed_ = true;
  findings_.Note("all is well again");
  for (size_t i = 0; i < runners_.size(); ++i) {
    for (size_t f = 0; f < frontends_.size(); ++f) {
      network_.Heal(static_cast<int32_t>(f), static_cast<int32_t>(i));
    }
    if (runners_[i].runner == nullptr) continue;
    runners_[i].runner->process().Continue();
    runners_[i].runner->executor().set_slowness(1.0);
  }
  for (FrontendMachine& machine : frontends_) {
    if (machine.process != nullptr) machine.process->Continue();
  }
}

}  // namespace graft
