// HostileRunner: a runner's process in a hostile simulation. It is the real engine over
// HostileExecutor and, for each frontend, the real FrontendRequests over a simulated stream. It
// does by calls of the loop what RunnerService does with threads. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "cache/content_table.h"
#include "engine/engine.h"
#include "hostile/defect.h"
#include "hostile/event_loop.h"
#include "hostile/findings.h"
#include "hostile/hostile_executor.h"
#include "hostile/hostile_network.h"
#include "rpc/frontend_requests.h"
#include "rpc/protocol.h"
#include "sim/sim_loader.h"

namespace graft {

struct HostileRunnerOptions {
  int32_t number = 0;
  int32_t arithmetic = 0;
  ExecutorLimits limits;
  CostModel costs;
  EngineOptions engine = {.scheduler = {.cold_start = ColdStart::kJoinLater, .prefix_hash_key = 1}};
  SimLoaderOptions loader;
  uint32_t protocol = kProtocolVersion;
  std::vector<int32_t> adapters;  // numbers
  Defect defect = Defect::kNone;
};

class HostileRunner {
 public:
  // `poison`: requests that end any runner that computes them; `on_poisoned` is called in the step.
  HostileRunner(const HostileRunnerOptions& options, const SimAdapters& adapters, EventLoop& loop,
                HostileNetwork& network, Random& random, Findings& findings,
                const std::set<int32_t>& poison, std::function<void()> on_poisoned);
  // It dies with all that it has, except its streams, which their frontends hold, too.
  ~HostileRunner();

  // A frontend's first message.
  void Accept(const std::shared_ptr<SimStream>& stream, const ToRunner& hello);
  void BeginDrain();
  // After a drain: what is left is cancelled, and told so.
  void EndInOrder();
  // It unloads an adapter, or loads one that it has not.
  void SwitchAdapter(int32_t adapter);
  SimProcess& process() { return process_; }
  HostileExecutor& executor() { return executor_; }
  // Notes in its streams which requests its last step held, to compare with its frontends' counts.
  void LeaveTruth();
  std::vector<std::shared_ptr<SimStream>> Streams() const;
  // With no request in flight: whether anything is still held by one.
  void CheckIdle() const;

 private:
  struct Session {
    std::shared_ptr<SimStream> stream;
    uint64_t frontend = 0;
    int64_t heard_ns = 0;
    int64_t adapters_told = 0;  // the version of the list that the frontend has
    bool write_due = false;
    std::map<uint64_t, int32_t> asked;  // keys of requests by number, but for what was cancelled
    std::set<int32_t> taken;            // keys of all requests
    std::set<uint64_t> told;            // in the step and undrawn, as the frontend knows
    std::unique_ptr<FrontendRequests> requests;
  };

  void Publish(int32_t adapter);
  void Take(Session& session, const ToRunner& message);
  void Write(Session& session, bool says_state);
  bool Has(Defect defect) const { return options_.defect == defect; }
  void Spoil(rpc::RunnerMessage* message);
  void EndSession(Session& session, bool tells);
  void Beat();
  void OnNews(Session& session);
  void OnStep(const StepNews& news);
  void OnStepEnd();
  void BeginIfIdle();
  void CheckStep();
  void CheckBegun() const;
  std::multiset<int32_t> Wanted() const;
  void CheckTold(const std::vector<int32_t>& keys) const;
  void CheckOwners(const std::vector<int32_t>& keys) const;
  void AskForLoads();
  void Check() const;
  ToFrontend Welcome() const;
  template <typename Message>
  void AddAdapters(Message* message) const;

  const HostileRunnerOptions options_;
  EventLoop& loop_;
  HostileNetwork& network_;
  Random& random_;
  Findings& findings_;
  const std::set<int32_t>& poison_;
  const std::function<void()> on_poisoned_;
  SimProcess process_;
  ContentTable table_;
  Metrics metrics_;
  SimLoader loader_;
  HostileExecutor executor_;
  std::set<int32_t> adapters_;  // that can be asked for
  int64_t adapters_version_ = 0;
  std::map<int64_t, std::unique_ptr<Session>> sessions_;  // in the order in which they came
  std::vector<std::unique_ptr<FrontendRequests>> kept_;   // of sessions that have ended; a defect
  int64_t num_sessions_ = 0;
  Engine engine_;
  std::set<int32_t> taken_;        // keys of all requests that ever came
  std::set<int32_t> unsure_;       // of them, those that came again: their steps are not told apart
  std::multiset<int32_t> wanted_;  // keys that frontends waited for when the step began
  std::set<int32_t> alone_;        // requests that may share no step until they have drawn
  std::set<int32_t> drawn_;        // requests that have drawn since they came
  std::set<int32_t> in_step_;      // of those in the step, those that had drawn nothing before
  int64_t beat_ns_ = 0;
  bool is_draining_ = false;
  bool asks_for_loads_ = false;
  int64_t num_steps_ = 0;
  int64_t num_states_ = 0;     // told
  bool looked_ahead_ = false;  // in the step that runs
};

}  // namespace graft
