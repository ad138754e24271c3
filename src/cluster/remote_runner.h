// What a frontend has of one runner: what the runner said of itself, what it was asked for since,
// and the link to it; and whether it can take a request. No locks: see the owner.
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

}  // namespace graft
