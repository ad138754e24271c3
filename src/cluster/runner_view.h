// What a frontend knows of one runner, and the choice among them. Plain data and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "rpc/protocol.h"
#include "rpc/runner_load.h"

namespace graft {

struct RunnerView {
  std::string address;
  bool is_listed = true;  // false: it is not called any more once it is down
  bool is_up = false;
  bool draining = false;
  std::string arithmetic_id;
  std::unordered_set<std::string> adapters;  // content hashes
  std::unordered_set<std::string> resident;  // of these, on its device, as far as is known
  RunnerLoad load;                           // as it said last
  int64_t num_sent = 0;                      // requests, since then
  int64_t num_in_flight = 0;                 // this frontend's
  int32_t page_tokens = 0;                   // 0: it does not say
  int64_t pages_sent = 0;                    // that requests sent since then may come to need
  bool tells_steps = false;
  std::unordered_set<uint64_t> undrawn_in_step;  // numbers of requests
};

// What a request asks of a runner.
struct PlacementNeeds {
  std::string adapter_hash;         // "": the base model
  std::string pool;                 // arithmetic id; "": any, nothing was drawn so far
  std::span<const size_t> refused;  // runners that have no room for it now
};

bool CanTake(const RunnerView& runner, size_t idx, const PlacementNeeds& needs);

// Pages that so many tokens fill; 0 where it does not say.
int64_t PagesOf(const RunnerView& runner, int64_t tokens);

// The most idle of those that could have `tokens` of a request in pages that nobody uses, with
// nobody in line. -1: none.
int PickWithRoom(const std::vector<RunnerView>& runners, const PlacementNeeds& needs,
                 int64_t tokens);

// The runner with the fewest requests, others' included. Of equals one that has the adapter on its
// device, then the first. -1: none can take it.
int PickMostIdle(const std::vector<RunnerView>& runners, const PlacementNeeds& needs);

}  // namespace graft
