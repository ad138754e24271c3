// What a frontend knows of one runner, and whether it can take a request. Plain data and pure
// functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "request/request.h"
#include "rpc/protocol.h"
#include "rpc/runner_load.h"

namespace graft {

struct RunnerView {
  std::string address;
  bool is_listed = true;  // false: it is not called any more once it is down
  bool is_up = false;
  bool draining = false;
  bool is_spare = false;  // takes requests where no other one has room
  std::string arithmetic_id;
  std::unordered_set<std::string> adapters;  // content hashes
  RunnerLoad load;                           // as it said last
  int64_t num_sent = 0;                      // requests, since then
  int64_t num_in_flight = 0;                 // this frontend's
  int32_t page_tokens = 0;                   // 0, here and in the next four: it does not say
  int32_t batch_max = 0;                     // requests in one step
  int32_t adapters_max = 0;                  // on its device
  int64_t num_pages = 0;                     // of its pool
  int64_t startup_ms = 0;                    // that it took until it served
  uint64_t instance = 0;                     // of its process; 0: it does not say
  bool has_told = false;                     // `load` is its own word, since it is up
  bool has_prefix_cache = true;
  int64_t pages_sent = 0;  // that requests sent since then may come to need
  bool tells_steps = false;
  std::unordered_set<uint64_t> undrawn_in_step;  // numbers of requests
};

// What a request asks of a runner.
struct PlacementNeeds {
  std::span<const AdapterUse> adapters;  // all of which it must have; none: the base model
  std::string pool;                      // arithmetic id; "": any, nothing was drawn so far
  std::span<const size_t> refused;       // runners that have no room for it now
};

// All of them.
bool HasAdapters(const RunnerView& runner, std::span<const AdapterUse> adapters);

// It is up and computes as those of the pool, an arithmetic id; "": any.
bool IsInPool(const RunnerView& runner, const std::string& pool);

bool CanTake(const RunnerView& runner, size_t idx, const PlacementNeeds& needs);

// By runner: whether it can, as a byte.
std::vector<uint8_t> WhoCanTake(const std::vector<RunnerView>& runners,
                                const PlacementNeeds& needs);

// Others' requests are known as of the last heartbeat, this frontend's own as of now.
int64_t RequestsOf(const RunnerView& runner);

// Pages that so many tokens fill; 0 where it does not say.
int64_t PagesOf(const RunnerView& runner, int64_t tokens);

// The runner has unused pages for `tokens` of a request, and no request waits there.
bool HasPagesFor(const RunnerView& runner, int64_t tokens);

}  // namespace graft
