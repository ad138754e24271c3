// RemoteRunners: the runners of a frontend, each in a numbered place that it keeps for as long as
// it is listed or up. Invariant: a free place has no link and no requests; a runner that is up has
// a link. No locks: its owner has one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "request/generator.h"
#include "request/request.h"
#include "rpc/runner_link.h"
#include "rpc/runner_load.h"

namespace graft {

// What a frontend has of one runner: what the runner said of itself, what it was asked for since,
// and the link to it; and whether it can take a request. No locks: see the owner.
struct RemoteRunner {
  std::string address;     // "": the place is free, for the next runner
  bool is_listed = true;   // false: it is not called any more once it is down
  bool is_ending = false;  // its link is about to end, and may still speak
  bool is_spare = false;   // takes requests where no other one has room
  bool is_up = false;
  Status why_down;                   // OK: it is up, or was never heard of
  std::unique_ptr<RunnerLink> link;  // null: down, and not listed

  // As it said when it came up.
  RunnerFacts facts;  // but for its adapters

  // As it said last.
  bool draining = false;
  std::unordered_set<std::string> adapters;  // content hashes
  RunnerLoad load;
  bool has_told = false;                         // `load` is its own word, since it is up
  std::unordered_set<uint64_t> undrawn_in_step;  // numbers of requests

  int64_t num_sent = 0;       // requests, since `load`
  int64_t pages_sent = 0;     // that these may come to need
  int64_t num_in_flight = 0;  // this frontend's requests there

  // It is up, with nothing in flight; its adapters are told besides.
  void ComeUp(RunnerFacts said);
  // A heartbeat; true: it begins to drain.
  bool Hear(const RunnerLoad& said, bool drains);
  // A request comes to it that may fill so many tokens, and leaves it.
  void Enter(int64_t tokens_max);
  void Leave() { --num_in_flight; }

  bool IsOpen() const { return is_up && !draining; }
  // All of them.
  bool HasAdapters(std::span<const AdapterUse> uses) const;
  // It is up and computes as those of the pool, an arithmetic id; "": any.
  bool IsInPool(const std::string& pool) const;
  // Others' requests are known as of the last heartbeat, this frontend's own as of now.
  int64_t NumRequests() const;
  // Pages that so many tokens fill; 0 where it does not say.
  int64_t PagesFor(int64_t tokens) const;
  // It has unused pages for `tokens` of a request, and no request waits there.
  bool HasPagesFor(int64_t tokens) const;
  // Whether its step may hold the request, which has drawn nothing there: a runner that does not
  // say what its steps hold may have all in them.
  bool MayHoldInStep(uint64_t number) const {
    return facts.protocol < kProtocolWithSteps || undrawn_in_step.contains(number);
  }
};

// What a request asks of a runner.
struct PlacementNeeds {
  std::span<const AdapterUse> adapters;  // all of which it must have; none: the base model
  std::string pool;                      // arithmetic id; "": any, nothing was drawn so far
  std::span<const size_t> refused;       // runners that have no room for it now
};

bool CanTake(const RemoteRunner& runner, size_t idx, const PlacementNeeds& needs);

// By runner: whether it can, as a byte.
std::vector<uint8_t> WhichCanTake(std::span<const RemoteRunner> runners,
                                  const PlacementNeeds& needs);
// Any of them can.
bool AnyCan(std::span<const uint8_t> can);

class RemoteRunners {
 public:
  explicit RemoteRunners(const std::vector<std::string>& addresses);

  size_t size() const { return runners_.size(); }
  RemoteRunner& operator[](size_t idx) { return runners_[idx]; }
  const RemoteRunner& operator[](size_t idx) const { return runners_[idx]; }
  std::span<const RemoteRunner> all() const { return runners_; }

  // The runner's place, which it gets where it has none: references to runners may end.
  size_t PlaceFor(const std::string& address);
  // No runner is listed any more.
  void Unlist();
  // Those at these addresses are spare, and no others.
  void MarkSpare(const std::vector<std::string>& addresses);
  // No runner is up from now on, nor comes up again; the links are to be ended as those below.
  std::vector<std::unique_ptr<RunnerLink>> TakeAllLinks();
  // Links that are not needed any more; their runners are ending from now on. They are to be ended
  // outside the lock, since their threads may wait for it.
  std::vector<std::unique_ptr<RunnerLink>> TakeDeadLinks();
  // The runner's link has ended: its place is free, unless it was listed again meanwhile.
  void Forget(size_t idx);

  // kUnavailable with the reason of each runner, where none is up.
  Status WhyNoneIsUp() const;
  // Those of `own`, cut to what every runner that is up can do.
  GeneratorLimits LimitsOfAll(GeneratorLimits own) const;
  // Runners that are listed, or were and are in use.
  int32_t NumKnown() const;
  // Any of the pool has all of these adapters.
  bool AnyHas(const std::string& pool, std::span<const AdapterUse> adapters) const;
  // Addresses of the pool's runners that do not drain; the idlest first.
  std::vector<std::string> IdlestFirst(const std::string& pool) const;

  // `num_in_flight`: by runner, as the requests have it. For tests.
  Status CheckIntegrity(std::span<const int64_t> num_in_flight) const;

 private:
  std::vector<RemoteRunner> runners_;
};

}  // namespace graft
