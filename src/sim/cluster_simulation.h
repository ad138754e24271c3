// Simulates a cluster by a virtual clock: a workload's requests, the real placement policies, and
// runners that are real engines with a cost model in place of computing. Runners may come and go as
// is wanted, or fail and come back slow. Several frontends may place by information that is some
// time old. Deterministic: the same workload, options and seed give the same figures. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "base/random.h"
#include "placement/policy.h"
#include "sim/sim_frontend.h"
#include "sim/sim_runner.h"
#include "sim/sim_scaling.h"
#include "sim/virtual_time.h"

namespace graft {

struct SimRequest {
  int64_t arrival_ns = 0;
  int32_t adapter = kBaseModel;
  int32_t prompt_tokens = 1;
  int32_t output_tokens = 1;
  // It begins like others of its adapter that have the same one; -1: like none.
  int32_t prefix = -1;
  int32_t prefix_tokens = 0;  // so far
};

struct SimWorkload {
  SimAdapters adapters;
  std::vector<SimRequest> requests;  // in order of arrival
  std::vector<double> fetch_ms;      // of which the time of each fetch is drawn; with host_adapters
  // What all requests say that they may draw; what they will draw is not known beforehand.
  int32_t output_tokens_told = 1024;
};

// A runner dies with all that it has; its requests go on elsewhere, their prompts and what they
// have drawn computed anew. It comes back empty, and slow at first.
struct SimFailures {
  double every_seconds = 0.0;  // on average, any of the runners; 0: none fails
  double down_seconds = 10.0;
  double slowness = 1.0;  // its steps take so many times as long
  double slow_seconds = 60.0;
};

struct SimClusterOptions {
  int32_t num_runners = 8;
  // So many runners, next to each other, share a machine and slow each other by the costs'
  // slowness; 1: each has its own.
  int32_t machine_runners = 1;
  SimRunnerOptions runner;
  PlacementOptions placement;
  SimScalingOptions scaling;  // with one frontend that knows at once, and without failures
  int32_t num_frontends = 1;  // each request comes to one of them, all alike
  // How often a frontend looks at the runners, each at another time; 0: it knows at once.
  double view_ms = 0.0;
  SimFailures failures;
  // Requests that arrive before are served, and not counted in times.
  double warm_seconds = 0.0;
  // Called whenever some more have ended; {}: not called.
  std::function<void(int64_t done, int64_t total)> on_progress;
};

// What came of one request.
struct SimOutcome {
  int64_t first_ns = -1;  // its first token; -1: none came
  int64_t end_ns = -1;
  int32_t runner = kNoRunner;
  bool is_refused = false;
};

struct SimRunnerFigures {
  int64_t requests = 0;  // that were placed there first
  int64_t steps = 0;
  int64_t output_tokens = 0;
  double busy_seconds = 0.0;  // with any request
  int64_t adapter_copies = 0;
  int64_t adapter_fetches = 0;
  int64_t adapter_evictions = 0;
  int64_t preemptions = 0;
  int64_t prefix_lookup_tokens = 0;  // of prompts, with prefix_cache
  int64_t prefix_hit_tokens = 0;     // of those, that were cached
};

struct SimResult {
  std::vector<SimOutcome> outcomes;  // by request
  std::vector<SimRunnerFigures> runners;
  int64_t end_ns = 0;
  int64_t waited_in_line = 0;  // requests that no runner had room for when they came
  int64_t moves = 0;           // of requests, to other runners
  int64_t failures = 0;        // of runners
  double paid_seconds = 0.0;   // of runners, from their orders to their ends
  int64_t starts = 0;          // of runners; with scaling
  int32_t paid_max = 0;        // runners at once, those that start included; with scaling
};

class ClusterSimulation {
 public:
  // Borrows the workload.
  ClusterSimulation(const SimWorkload& workload, const SimClusterOptions& options);
  // Until every request has ended; once.
  SimResult Run();

 private:
  struct Flight {
    PlacedRequest placed;
    std::shared_ptr<TokenStream> stream;  // shared with the engine
    int32_t num_drawn = 0;
    int32_t num_moves = 0;
    bool has_drawn_here = false;  // on its runner
  };

  void OnEvent(const SimEvent& event);
  void OnArrival(int64_t request);
  bool Place(int64_t request);
  void Send(int64_t request, size_t runner);
  void Leave(int64_t request);
  void PlaceLines();
  void OnRunner(const SimEvent& event);
  void ReadStreams();
  void Read(int64_t request);
  void End(int64_t request);
  void Look(SimFrontend& frontend, size_t runner);
  void OnLook(int64_t frontend);
  void Plan();
  std::vector<int32_t> PromptOf(int64_t request) const;
  Request MakeRequest(int64_t request) const;
  SimFrontend& FrontendOf(int64_t request);
  // A request comes to a frontend so long before its runner can begin with it, see ServedCosts.
  int64_t ArrivalNs(int64_t request) const;
  bool knows_at_once() const { return options_.view_ms <= 0.0; }

  // These are in cluster_simulation_scaling.cc.
  void Equip(size_t runner);
  void Collect(size_t runner);
  void Scale();
  void OnStarted(int64_t target);
  void EmptyGoing();
  bool Empty(size_t runner, int64_t* tokens_left);
  bool Move(int64_t request);

  // These are in cluster_simulation_failures.cc.
  void AskForFailure();
  void FailOne();
  void Fail(size_t runner);
  void Return(size_t runner);
  void Recover(int64_t number);

  const SimWorkload& workload_;
  const SimClusterOptions options_;
  VirtualTime time_;
  const std::vector<std::unique_ptr<SimFrontend>> frontends_;
  Fleet& fleet_;  // of the first one
  SimScaling scaling_;
  bool is_emptying_ = false;  // EmptyGoing is to be called again
  Random fetches_, failures_;
  std::vector<std::unique_ptr<SimMachine>> machines_;  // which runners point to; empty: none share
  std::vector<std::unique_ptr<SimRunner>> runners_;    // null while one is down
  std::vector<int64_t> num_equipped_;                  // by runner, how often
  std::vector<int64_t> num_requests_;                  // by runner, of all frontends
  std::vector<int64_t> busy_since_ns_;                 // by runner, while it has requests
  std::vector<std::set<int64_t>> on_;  // by runner, its requests; with scaling or failures
  std::vector<Flight> flights_;        // by request
  std::vector<int64_t> ready_;         // requests with events in their streams
  int64_t num_ended_ = 0;
  SimResult result_;
};

}  // namespace graft
