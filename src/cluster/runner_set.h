// A cluster's runners as one Generator: places each request on one of those that can take it, as
// the placement policy chooses, and moves it, with the tokens drawn so far, when its runner dies,
// drains or has no room. A stream's reader sees no token lost, doubled or changed: a request that
// has drawn is moved only to a runner with the same arithmetic. Thread-safe; a thread of its own
// looks for silence, unless the owner's world has another clock.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/random.h"
#include "cluster/frontend_metrics.h"
#include "cluster/runner_catalog.h"
#include "cluster/runner_chooser.h"
#include "cluster/runner_view.h"
#include "placement/scale_hint.h"
#include "request/generator.h"
#include "request/tenant_places.h"
#include "rpc/runner_link.h"

namespace graft {

struct RunnerSetOptions {
  std::vector<std::string> addresses;  // host:port of each
  bool addresses_come_later = false;   // by SetRunners; else there must be one
  TlsFiles tls;
  BaseModelId base;
  GeneratorLimits limits;  // until a runner is up; its requests_max is the frontend's own
  PlacementOptions placement;
  // startup_seconds 0: as long as the slowest runner took.
  ScaleOptions scale = {.startup_seconds = 0.0};
  // Runners beyond the number wanted are emptied; where they come later SetSpare says which.
  bool consolidates = false;
  Metrics* metrics = nullptr;  // null: a private one
  // So many runners may die in steps that hold a request which has drawn nothing there; after that
  // it runs alone in its steps, and is given up if that kills a runner, too.
  int32_t deaths_max = 3;
  // How long a request that was begun waits for a runner that can go on with it.
  int64_t runner_wait_ns = 30'000'000'000;
};

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

class RunnerSet : public Generator, private RunnerListener {
 public:
  static constexpr int64_t kTickNs = 50'000'000;

  static Result<std::unique_ptr<RunnerSet>> Start(const RunnerSetOptions& options,
                                                  const RunnerSetWorld& world = {});
  // No request may be in flight that a reader still waits for.
  ~RunnerSet() override;

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
  // How many runners there should be, as of the last second.
  ScaleHint hint() const;
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

  RunnerCatalog& catalog() { return catalog_; }
  // Whether any runner is up; else why not.
  Status ready() const;
  // The number of runners thought to hold the content on their devices.
  int32_t NumHolders(const std::string& hash) const;

 private:
  static constexpr size_t kNowhere = static_cast<size_t>(-1);

  struct InFlight {
    Request request;                      // output_tokens: drawn so far
    RequestId id;                         // the caller's id of it
    uint64_t arrival = 0;                 // how many came before it
    std::shared_ptr<TokenStream> stream;  // shared with its reader, which may end first
    int64_t accepted_ns = 0;
    int64_t waiting_since_ns = 0;
    size_t runner = kNowhere;
    uint64_t number = 0;          // on its runner
    bool has_drawn_here = false;  // since it arrived there
    bool is_cancelled = false;
    int32_t num_deaths = 0;  // of runners in steps that held it, and where it drew nothing
    std::string pool;        // arithmetic of what was drawn; "": nothing so far
    // Where its adapters lay when it was accepted; "": not known.
    std::vector<std::string> adapter_paths;
    std::string last_refusal;     // what the last runner said that did not go on with it
    std::vector<size_t> refused;  // runners without room, since it waits
    std::vector<size_t> lacking;  // runners that list its adapter and said that they cannot use it
    PlacedRequest placed;         // as the chooser knows it
    int64_t last_token_ns = 0;
    std::shared_ptr<const AdapterCounters> counters;  // with others of its adapter
  };

  // By time of acceptance, then in the order of arrival.
  struct IsOlder {
    bool operator()(const InFlight* a, const InFlight* b) const {
      return std::tie(a->accepted_ns, a->arrival) < std::tie(b->accepted_ns, b->arrival);
    }
  };

  RunnerSet(const RunnerSetOptions& options, const RunnerSetWorld& world);
  Status StartLinks();
  Status AddLink(size_t runner);

  Status OnUp(size_t runner, RunnerFacts facts) override;
  void OnEvents(size_t runner, uint64_t number, std::vector<TokenEvent> events) override;
  void OnState(size_t runner, const RunnerLoad& load, bool draining) override;
  void OnAdapters(size_t runner, std::vector<ListedAdapter> adapters) override;
  void OnStep(size_t runner, std::vector<uint64_t> undrawn) override;
  void OnEvicted(size_t runner, uint64_t number) override;
  void OnDown(size_t runner, const Status& why) override;

  // All with mutex_ held.
  Status WhyNoneIsUp() const;
  void SetAdapters(size_t runner, const std::vector<ListedAdapter>& adapters);
  PlacementNeeds NeedsOf(const InFlight& one) const;
  int32_t Choose(InFlight& one);
  void Place(InFlight& one);
  void PlaceOn(InFlight& one, size_t runner);
  void CountPlaced(const InFlight& one);
  void CountToken(InFlight& one);
  std::string LabelOf(const std::string& hash) const;
  InFlight* FindOn(size_t runner, uint64_t number);
  void LeaveRunner(InFlight& one);
  void PlaceWaiting(int64_t now_ns);
  void PlaceLine();
  void TakeEvent(InFlight& one, TokenEvent event);
  bool IsRefusal(const InFlight& one, const TokenEvent& event) const;
  bool AnotherMayHaveIt(const InFlight& one) const;
  // Runners that had no room may have some by now. A request that has drawn is not given up for its
  // adapter: runners that could not use it are asked again.
  static void Retry(InFlight& one) {
    if (!one.pool.empty()) one.lacking.clear();
    one.refused = one.lacking;
  }
  void LoseRunner(size_t runner);
  void MoveAway(size_t runner, bool left, bool died);
  bool CanMove(const InFlight& one) const;
  bool MayHaveKilled(const InFlight& one) const;
  bool IsGivenUp(InFlight& one);
  void End(InFlight& one, TokenEvent event, bool gives_place = false);
  Status WhyItWaited(const InFlight& one) const;
  bool IsMissing(const std::string& hash, const std::string& pool) const;
  MissingContent Missing(const std::string& hash, const std::string& path,
                         const std::string& pool) const;
  size_t PlaceFor(const std::string& address);
  void Call(size_t runner);
  std::vector<std::unique_ptr<RunnerLink>> TakeDeadLinks();
  void Forget();
  // In runner_set_places.cc. FindPlace may end another tenant's request.
  Status FindPlace(const Request& request);
  bool TakePlace(const Request& request);
  void EnterPlace(InFlight& one);
  void NoteDrawn(InFlight& one);
  void LeavePlace(InFlight& one, bool gives_place);
  // In runner_set_scaling.cc.
  int32_t CountKnown() const;
  void Advise(int64_t now_ns);
  void MarkSpare(const std::vector<std::string>& addresses);
  void EmptySpare();
  void Empty(size_t runner);
  bool MoveTo(InFlight& one, std::span<const uint8_t> allowed);

  void TickLoop();
  int64_t NowNs() const { return world_.clock->NowNs(); }

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
  int64_t planned_ns_ = 0;  // when the chooser last did
  ScaleAdvisor advisor_;
  ScaleHint hint_;
  int64_t waiting_elsewhere_ = 0;
  std::vector<RunnerView> views_;  // address "": free, for the next runner
  std::set<size_t> ending_;        // by runner: their links are about to end, and may still speak
  std::vector<GeneratorLimits> limits_of_;  // by runner; requests_max 0: never up
  std::vector<Status> why_down_;
  std::string weights_hash_;  // of the first runner that came up
  uint64_t next_number_ = 1;
  uint64_t num_arrivals_ = 0;
  int64_t ticked_ns_ = 0;
  std::unordered_map<RequestId, std::unique_ptr<InFlight>> in_flight_;
  std::unordered_map<uint64_t, InFlight*> by_number_;
  TenantPlaces places_;  // of those in flight
  // By tenant, requests that have drawn nothing; no set is empty.
  std::unordered_map<std::string, std::set<InFlight*, IsOlder>> undrawn_;
  std::set<InFlight*, IsOlder> waiting_;
  // Waiting requests that hold up those that came after them, see RunnerChooser::keeps_order.
  std::set<InFlight*, IsOlder> line_;
  std::vector<std::unique_ptr<RunnerLink>> links_;  // null: down, and not listed
  std::thread ticker_;
};

}  // namespace graft
