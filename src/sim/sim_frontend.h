// A frontend of a simulation: the real policy over what this frontend knows. It knows everything of
// its own requests at once, and of others' what it saw when it looked last. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "base/random.h"
#include "placement/policy.h"
#include "sim/sim_runner.h"

namespace graft {

class SimFrontend {
 public:
  SimFrontend(const PlacementOptions& placement, const SimRunnerOptions& runner, size_t num_runners)
      : seed_(placement.seed),
        runner_(runner),
        policy_(MakePlacementPolicy(placement)),
        pages_sent_(num_runners) {
    fleet_.SetNumRunners(num_runners);
  }

  Fleet& fleet() { return fleet_; }
  // A new runner in the place of a former one, which has no requests any more.
  void Equip(size_t runner, bool is_open) {
    fleet_.Reset(runner);
    fleet_.runner(runner) = {.id = RandomBits(seed_, runner),
                             .is_open = is_open,
                             .batch_max = runner_.limits.sequences_max,
                             .adapters_max = runner_.limits.adapters_max,
                             .page_tokens = runner_.limits.page_tokens,
                             .pages_free = runner_.limits.num_pages,
                             .num_pages = runner_.limits.num_pages};
    pages_sent_[runner] = 0;
  }

  // How the runner is now: the requests of all frontends, and its pages.
  void Look(size_t runner, int64_t num_requests, int64_t pages_free) {
    RunnerState& state = fleet_.runner(runner);
    state.num_requests = num_requests;
    state.pages_free = pages_free - pages_sent_[runner];
    state.pages_used = runner_.limits.num_pages - pages_free;
  }

  // By now what was sent before is in the runner's pages.
  void OnStepEnd(size_t runner) { pages_sent_[runner] = 0; }
  void Plan() { policy_->Plan(fleet_); }
  bool reads_prefixes() const { return policy_->reads_prefixes(); }

  void Arrive(const PlacedRequest& request, int64_t now_ns) {
    policy_->OnArrival(request);
    fleet_.Arrive(request.adapter, now_ns);
  }

  int32_t Pick(const PlacementQuery& query) { return policy_->Pick(fleet_, query); }
  void Place(size_t runner, const PlacedRequest& request) {
    fleet_.Place(runner, request);
    RunnerState& state = fleet_.runner(runner);
    ++state.num_requests;
    const int64_t pages =
        (request.prompt_tokens + runner_.limits.page_tokens - 1) / runner_.limits.page_tokens;
    pages_sent_[runner] += pages;
    state.pages_free -= pages;
  }

  void Leave(size_t runner, const PlacedRequest& request, bool has_drawn) {
    fleet_.Leave(runner, request, has_drawn);
    --fleet_.runner(runner).num_requests;
  }

  // Requests that wait for a runner, oldest first.
  std::set<int64_t>& line() { return line_; }

 private:
  const uint64_t seed_;
  const SimRunnerOptions runner_;
  Fleet fleet_;
  const std::unique_ptr<PlacementPolicy> policy_;
  std::vector<int64_t> pages_sent_;  // by runner, to requests since its last step's end
  std::set<int64_t> line_;
};

}  // namespace graft
