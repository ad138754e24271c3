// RunnerSet: a cluster's runners as one Generator. It places each request on a runner that can take
// it, by the placement policy. It moves a request, with the tokens drawn so far, when its runner
// dies, drains or has no room. A stream's reader sees no token lost, doubled or changed: a request
// that has drawn tokens moves only to a runner with the same arithmetic.
//
// The class itself decides what happens and when. RequestsInFlight knows where each request is,
// RemoteRunners what each runner reported, RunnerChooser asks the policy, and FleetSizer how many
// runners there should be. Thread-safe: one mutex over all of them, which links' threads and
// callers take. A thread of its own looks for silent runners, unless the owner's world has another
// clock.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "cluster/cluster_library.h"
#include "cluster/fleet_sizer.h"
#include "cluster/frontend_metrics.h"
#include "cluster/remote_runners.h"
#include "cluster/requests_in_flight.h"
#include "cluster/runner_catalog.h"
#include "cluster/runner_chooser.h"
#include "request/generator.h"
#include "rpc/runner_link.h"

namespace graft {

// What a RunnerSet has of the world outside. A simulation hands in its own.
struct RunnerSetWorld {
  const Clock* clock = &SteadyClock::Get();
  StartLink start_link = StartGrpcLink;
  uint64_t frontend = RandomSeed();  // unique in the cluster
  bool has_ticker = true;            // false: the owner calls Tick
};

// What a cluster's registry says, as far as requests ask for it.
struct RegisteredContent {
  std::string path;  // where it lies
  std::string name;
};
struct RegistryFacts {
  std::unordered_map<std::string, RegisteredContent> adapters;  // by content hash
  std::map<std::string, float> tenant_weights;                  // of others 1
};

// A content that requests began with, no name leads to, and no runner has that could go on.
struct MissingContent {
  std::string hash;
  std::string path;                  // where it lay
  std::vector<std::string> runners;  // addresses of those that could take it; the idlest first
};

class RunnerSet : public Generator, public RunnersInReach, private RunnerListener {
 public:
  static constexpr int64_t kTickNs = 50'000'000;

  // kInvalidArgument: no runner is named and none comes later; or a link's error.
  static Result<std::unique_ptr<RunnerSet>> Start(const RunnerSetOptions& options,
                                                  const RunnerSetWorld& world = {});
  // No request may be in flight that a reader still waits for.
  ~RunnerSet() override;

  // Besides Generator's errors, kUnavailable: no runner is up, and why; kAlreadyExists: another
  // request in flight has the id.
  Status Submit(Request request, std::shared_ptr<TokenStream> stream) override;
  void Cancel(RequestId id) override;
  GeneratorLimits limits() const override;
  int32_t RetryAfterS(const std::string& tenant, double weight) override;

  // Addresses: those that are new are called; those that are not there any more are used while they
  // are up.
  void SetRunners(const std::vector<std::string>& runners);
  // A request for an adapter that is registered waits until a runner has it.
  void SetRegistry(RegistryFacts registry);
  // Contents that waiting requests need, and that some process may still have.
  std::vector<MissingContent> FindMissing() const;
  // As of the last second.
  ScaleHint hint() const override;
  // Requests that other frontends have on no runner.
  void SetWaitingElsewhere(int64_t num_requests);
  int64_t num_waiting() const;
  // Addresses of runners that are emptied, and take requests where no other one has room.
  void SetSpare(const std::vector<std::string>& addresses);
  // The number of runners that are listed, or were listed and are in use.
  size_t num_known() const;

  // Looks for silent runners, and for room for waiting requests. Without a ticker the owner calls
  // it every kTickNs.
  void Tick();

  Generator& generator() override { return *this; }
  RunnerCatalog& catalog() override { return catalog_; }
  Status ready() const override;
  int32_t NumHolders(const std::string& hash) const override;

  // Each request is where it belongs, and runners count those that they have. For tests.
  Status CheckIntegrity() const;

 private:
  RunnerSet(const RunnerSetOptions& options, const RunnerSetWorld& world);
  Status StartLinks();
  void TickLoop();
  int64_t NowNs() const { return world_.clock->NowNs(); }

  Status OnUp(size_t runner, RunnerFacts facts) override;
  void OnEvents(size_t runner, uint64_t number, std::vector<TokenEvent> events) override;
  void OnState(size_t runner, const RunnerLoad& load, bool draining) override;
  void OnAdapters(size_t runner, std::vector<ListedAdapter> adapters) override;
  void OnStep(size_t runner, std::vector<uint64_t> undrawn) override;
  void OnEvicted(size_t runner, uint64_t number) override;
  void OnDown(size_t runner, const Status& why) override;

  // All below with mutex_ held.
  // In runner_set.cc: requests come and end.
  void Plan(int64_t now_ns);
  Status FindPlace(const Request& request);
  std::unique_ptr<InFlight> Accept(Request request, std::shared_ptr<TokenStream> stream);
  void End(InFlight& one, TokenEvent event, bool gives_place = false);
  static TokenEvent FailedEvent(Status why) {
    return {.finish_reason = FinishReason::kError, .status = std::move(why)};
  }
  // In runner_set_placing.cc: which runner has which request.
  static PlacementNeeds NeedsOf(const InFlight& one) {
    return {.adapters = one.request.adapters, .pool = one.pool, .refused = one.refused};
  }
  bool Place(InFlight& one);
  void PlaceOn(InFlight& one, size_t runner);
  void TakeOff(InFlight& one);
  void PlaceWaiting(int64_t now_ns);
  void EndIfLate(InFlight& one, int64_t now_ns);
  void PlaceLine();
  Status WhyItWaited(const InFlight& one) const;
  FrontendMetrics::Meets MeetsOn(const InFlight& one) const;
  bool MoveTo(InFlight& one, std::span<const uint8_t> allowed);
  void MoveAway(size_t runner, bool left, bool died);
  bool CanMove(const InFlight& one) const;
  bool IsGivenUp(InFlight& one) const;
  // In runner_set_sparing.cc: requests leave runners that may go.
  void EmptySpare();
  void Empty(size_t runner);
  bool MoveFromSpare(InFlight& one);
  // In runner_set_events.cc: what runners say.
  void SetAdapters(size_t runner, const std::vector<ListedAdapter>& adapters);
  void TakeEvent(InFlight& one, TokenEvent event);
  void TakeRefusal(InFlight& one, const Status& why);
  bool IsRefusal(const InFlight& one, const TokenEvent& event) const;
  bool AnotherMayHaveIt(const InFlight& one) const;
  void LoseRunner(size_t runner);
  void CountToken(InFlight& one);
  // In runner_set_listing.cc: which runners and which contents there are.
  Status AddLink(size_t runner);
  void Call(size_t runner);
  void Forget();
  bool IsMissing(const std::string& hash, const std::string& pool) const;
  std::string LabelOf(const std::string& hash) const;

  const RunnerSetOptions options_;
  const RunnerSetWorld world_;
  RunnerCatalog catalog_;
  mutable std::mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ = false;
  RegistryFacts registry_;
  const std::unique_ptr<Metrics> own_metrics_;  // null: others'
  FrontendMetrics metrics_;
  RunnerChooser chooser_;
  FleetSizer sizer_;
  RequestsInFlight requests_;
  RemoteRunners runners_;
  std::string weights_hash_;  // of the first runner that came up
  uint64_t round_ = 1;        // in which those that wait have one turn each
  int64_t ticked_ns_ = 0;
  int64_t planned_ns_ = 0;  // when the chooser last did
  std::thread ticker_;
};

}  // namespace graft
