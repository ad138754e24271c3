// Placement as a min-cost flow, solved once a second. The busiest adapters are sources, with as
// much flow as they have load. A runner takes flow up to its even share at no cost, and beyond it
// at a rising cost. A unit that goes to a runner without the adapter costs a copy. A busy adapter
// can go to its holders and to the runners that its hash puts first. Requests follow the flow.
// Requests of other adapters, and those that find room only elsewhere, follow rendezvous hashing.
// If no runner has room, requests wait where the flow has them.
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "placement/flow_network.h"
#include "placement/policy.h"

namespace graft {
namespace {

constexpr size_t kPlannedMax = 256;  // adapters
constexpr size_t kByHashMax = 8;     // runners that an adapter may come to
constexpr size_t kHoldersMax = 32;
constexpr int64_t kUnitsPerRunner = 16;     // of flow, an even share
constexpr int64_t kCopyCost = 3;            // of a unit where the adapter is not
constexpr int64_t kCrowdCosts[] = {4, 12};  // of a unit in a runner's second and third share
constexpr int64_t kOverfullCost = 40;
constexpr double kLoadKept = 0.9;  // from one plan to the next
constexpr double kForgottenLoad = 0.05;

class MinCostFlow : public PlacementPolicy {
 public:
  int32_t Pick(const Fleet& fleet, const PlacementQuery& query) override {
    const int32_t planned = PickPlanned(
        query, [&](size_t i) { return HasRoom(fleet, i, query); }, fleet);
    if (planned != kNoRunner) return planned;
    const int32_t hashed = by_hash_->Pick(fleet, query);
    if (hashed == kNoRunner || HasRoom(fleet, static_cast<size_t>(hashed), query)) return hashed;
    const int32_t full = PickPlanned(
        query, [&](size_t i) { return CanServe(fleet, i, query); }, fleet);
    return full != kNoRunner ? full : hashed;
  }

  void OnArrival(const PlacedRequest& request) override {
    if (request.adapter == kBaseModel) return;
    Load& load = loads_[request.adapter];
    load.arrivals += 1.0;
    load.adapter_id = request.adapter_id;
  }

  void Plan(const Fleet& fleet) override {
    std::vector<Busy> busy = TakeBusiest();
    plan_.clear();
    std::vector<size_t> open;
    for (size_t i = 0; i < fleet.num_runners(); ++i) {
      if (fleet.runner(i).is_open) open.push_back(i);
    }
    double load = 0.0;
    for (const Busy& one : busy) load += one.load;
    if (open.empty() || load <= 0.0) return;
    const double units_per_load = static_cast<double>(kUnitsPerRunner * std::ssize(open)) / load;
    for (Busy& one : busy) {
      one.units = std::max<int64_t>(1, std::llround(one.load * units_per_load));
    }
    SolvePlan(fleet, open, busy);
  }

 private:
  struct Load {
    double arrivals = 0.0;  // older ones counting less with each plan
    uint64_t adapter_id = 0;
  };
  struct Busy {
    int32_t adapter = kBaseModel;
    uint64_t adapter_id = 0;
    double load = 0.0;
    int64_t units = 0;
  };
  struct Share {
    int32_t runner = kNoRunner;
    int64_t units = 0;
    int64_t taken = 0;  // requests, since it was planned
  };

  // The runner that is furthest behind its share of the adapter, among those that have one and fit.
  template <typename Fits>
  int32_t PickPlanned(const PlacementQuery& query, const Fits& fits, const Fleet& fleet) {
    const auto it = plan_.find(query.request.adapter);
    if (it == plan_.end()) return kNoRunner;
    Share* picked = nullptr;
    for (Share& share : it->second) {
      const auto idx = static_cast<size_t>(share.runner);
      if (idx >= fleet.num_runners() || !fits(idx)) continue;
      // taken / units, without a division
      if (picked == nullptr ||
          (share.taken + 1) * picked->units < (picked->taken + 1) * share.units)
        picked = &share;
    }
    if (picked == nullptr) return kNoRunner;
    ++picked->taken;
    return picked->runner;
  }

  std::vector<Busy> TakeBusiest() {
    std::vector<Busy> busy;
    for (auto it = loads_.begin(); it != loads_.end();) {
      busy.push_back({it->first, it->second.adapter_id, it->second.arrivals});
      it->second.arrivals *= kLoadKept;
      it = it->second.arrivals < kForgottenLoad ? loads_.erase(it) : std::next(it);
    }
    const auto is_busier = [](const Busy& a, const Busy& b) {
      return std::pair(-a.load, a.adapter) < std::pair(-b.load, b.adapter);
    };
    std::sort(busy.begin(), busy.end(), is_busier);
    if (busy.size() > kPlannedMax) busy.resize(kPlannedMax);
    return busy;
  }

  // Runners that the adapter may go to, and whether they hold it.
  std::vector<std::pair<size_t, bool>> PlacesOf(const Fleet& fleet, const std::vector<size_t>& open,
                                                const Busy& one) {
    std::vector<std::pair<size_t, bool>> places;
    for (const int32_t holder : fleet.Holders(one.adapter)) {
      const auto idx = static_cast<size_t>(holder);
      if (fleet.runner(idx).is_open && places.size() < kHoldersMax) places.emplace_back(idx, true);
    }
    by_weight_.clear();
    for (const size_t idx : open) {
      by_weight_.emplace_back(~RendezvousWeight(one.adapter_id, fleet.runner(idx).id), idx);
    }
    const auto last =
        by_weight_.begin() + static_cast<int64_t>(std::min(WantedPlaces(one), by_weight_.size()));
    std::partial_sort(by_weight_.begin(), last, by_weight_.end());
    for (auto it = by_weight_.begin(); it != last; ++it) {
      if (!fleet.Holds(it->second, one.adapter)) places.emplace_back(it->second, false);
    }
    return places;
  }

  // As many as its load fills, and a few to choose from.
  static size_t WantedPlaces(const Busy& one) {
    return kByHashMax + static_cast<size_t>(2 * one.units / kUnitsPerRunner);
  }

  void SolvePlan(const Fleet& fleet, const std::vector<size_t>& open,
                 const std::vector<Busy>& busy) {
    const size_t sink = 1, first_runner = 2, first_adapter = first_runner + open.size();
    std::vector<size_t> node_of(fleet.num_runners(), 0);
    FlowNetwork network(first_adapter + busy.size());
    for (size_t i = 0; i < open.size(); ++i) {
      node_of[open[i]] = first_runner + i;
      network.AddEdge(first_runner + i, sink, kUnitsPerRunner, 0);
      for (const int64_t cost : kCrowdCosts) {
        network.AddEdge(first_runner + i, sink, kUnitsPerRunner, cost);
      }
      network.AddEdge(first_runner + i, sink, kUnitsPerRunner * std::ssize(open), kOverfullCost);
    }
    struct Way {
      int32_t adapter;
      int32_t runner;
      size_t edge;
    };
    std::vector<Way> ways;
    for (size_t i = 0; i < busy.size(); ++i) {
      network.AddEdge(0, first_adapter + i, busy[i].units, 0);
      for (const auto& [idx, holds] : PlacesOf(fleet, open, busy[i])) {
        ways.push_back({busy[i].adapter, static_cast<int32_t>(idx),
                        network.AddEdge(first_adapter + i, node_of[idx], busy[i].units,
                                        holds ? 0 : kCopyCost)});
      }
    }
    network.Solve(0, sink);
    for (const Way& way : ways) {
      const int64_t units = network.FlowOf(way.edge);
      if (units > 0) plan_[way.adapter].push_back({way.runner, units});
    }
  }

  std::unordered_map<int32_t, Load> loads_;
  std::unordered_map<int32_t, std::vector<Share>> plan_;
  std::vector<std::pair<uint64_t, size_t>> by_weight_;  // scratch
  const std::unique_ptr<PlacementPolicy> by_hash_ =
      MakePlacementPolicy({.kind = PlacementKind::kRendezvous});
};

}  // namespace

std::unique_ptr<PlacementPolicy> MakeMinCostFlow() { return std::make_unique<MinCostFlow>(); }

}  // namespace graft
