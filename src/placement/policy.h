// PlacementPolicy chooses the runner for a request. The frontend and the simulator call all
// policies alike. Pure: no clock, no thread, no network. The same calls with the same seed give the
// same choices. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "placement/cost_model.h"
#include "placement/fleet.h"

namespace graft {

enum class PlacementKind : uint8_t {
  kMostIdle,
  kPunica,
  kFirstFit,
  kRandom,
  kRendezvous,
  kMinCostFlow,
  kCaraServe,
  kAuto,
};

struct PlacementName {
  PlacementKind kind;
  const char* name;
};
inline constexpr PlacementName kPlacementNames[] = {
    {PlacementKind::kMostIdle, "most-idle"},    {PlacementKind::kPunica, "punica"},
    {PlacementKind::kFirstFit, "first-fit"},    {PlacementKind::kRandom, "random"},
    {PlacementKind::kRendezvous, "rendezvous"}, {PlacementKind::kMinCostFlow, "min-cost-flow"},
    {PlacementKind::kCaraServe, "caraserve"},   {PlacementKind::kAuto, "auto"}};

// "most-idle"
const char* NameOf(PlacementKind kind);

struct PlacementOptions {
  PlacementKind kind = PlacementKind::kAuto;
  CostModel costs;
  // Bound on a token's time, after the first; 0: 1.5 steps of one row of rank 64 (CaraServe, 7.5).
  double slo_ms = 0.0;
  uint64_t seed = 1;

  double SloMs() const {
    return slo_ms > 0.0 ? slo_ms
                        : 1.5 * costs.DecodeMs({.num_requests = 1, .sum = 64, .largest = 64});
  }
};

// A request that looks for a runner.
struct PlacementQuery {
  PlacedRequest request;
  // By runner, whether it could serve the request at all; empty: all can.
  std::span<const uint8_t> allowed;
  int64_t now_ns = 0;
};

class PlacementPolicy {
 public:
  virtual ~PlacementPolicy() = default;

  // A runner that is open and allowed, or kNoRunner: the request waits in line. Where no runner has
  // room, all policies but Punica's still choose one, and the request waits in its line.
  virtual int32_t Pick(const Fleet& fleet, const PlacementQuery& query) = 0;

  // Whether the policy reads the names of prompts' leading pages.
  virtual bool reads_prefixes() const { return false; }

  // Whether a request that cannot be placed holds up those behind it in line.
  virtual bool keeps_order() const { return false; }

  // A new request, before its first Pick.
  virtual void OnArrival(const PlacedRequest& /*request*/) {}
  // Called once a second, for work that takes too long for a choice.
  virtual void Plan(const Fleet& /*fleet*/) {}
};

std::unique_ptr<PlacementPolicy> MakePlacementPolicy(const PlacementOptions& options);

std::unique_ptr<PlacementPolicy> MakeMinCostFlow();
std::unique_ptr<PlacementPolicy> MakeAuto(const PlacementOptions& options);

// What the policies share.

inline bool CanServe(const Fleet& fleet, size_t idx, const PlacementQuery& query) {
  return fleet.runner(idx).is_open && (query.allowed.empty() || query.allowed[idx] != 0);
}

// The runner's pages do not suffice for what the request has and a page more. A number that a
// runner does not say is no limit.
bool LacksPages(const RunnerState& runner, const PlacedRequest& request);

// The runner's next step could have the request: its batch is not full, and it has pages. A runner
// without requests gives all its pages.
bool HasRoom(const Fleet& fleet, size_t idx, const PlacementQuery& query);

// Rendezvous hashing: the runner with the largest of these has the adapter.
uint64_t RendezvousWeight(uint64_t adapter_id, uint64_t runner_id);

// The runner with the least cost among those that `fits` lets through, the first of equals;
// kNoRunner: none.
template <typename Cost, typename Fits, typename CostOf>
int32_t PickLeast(const Fleet& fleet, const Fits& fits, const CostOf& cost_of) {
  int32_t picked = kNoRunner;
  Cost least = {};
  for (size_t i = 0; i < fleet.num_runners(); ++i) {
    if (!fits(i)) continue;
    Cost cost = cost_of(i);
    if (picked != kNoRunner && !(cost < least)) continue;
    picked = static_cast<int32_t>(i);
    least = std::move(cost);
  }
  return picked;
}

// The least of those with room; where there is none, of all that could serve it.
template <typename Cost, typename CostOf>
int32_t PickRoomFirst(const Fleet& fleet, const PlacementQuery& query, const CostOf& cost_of) {
  const int32_t picked = PickLeast<Cost>(
      fleet, [&](size_t i) { return HasRoom(fleet, i, query); }, cost_of);
  if (picked != kNoRunner) return picked;
  return PickLeast<Cost>(
      fleet, [&](size_t i) { return CanServe(fleet, i, query); }, cost_of);
}

// The runner with the fewest requests; of equals one that holds the adapter, then the first.
int32_t PickFewestRequests(const Fleet& fleet, const PlacementQuery& query);

}  // namespace graft
