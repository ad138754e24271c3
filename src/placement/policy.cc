#include "placement/policy.h"

#include "base/random.h"

namespace graft {

const char* NameOf(PlacementKind kind) {
  for (const PlacementName& one : kPlacementNames) {
    if (one.kind == kind) return one.name;
  }
  return "";
}

bool LacksPages(const RunnerState& runner, const PlacedRequest& request) {
  return runner.page_tokens > 0 &&
         runner.pages_free <= request.prompt_tokens / runner.page_tokens + 1;
}

bool HasRoom(const Fleet& fleet, size_t idx, const PlacementQuery& query) {
  if (!CanServe(fleet, idx, query)) return false;
  const RunnerState& runner = fleet.runner(idx);
  if (runner.batch_max > 0 && runner.num_requests >= runner.batch_max) return false;
  return runner.num_requests == 0 || !LacksPages(runner, query.request);
}

uint64_t RendezvousWeight(uint64_t adapter_id, uint64_t runner_id) {
  return RandomBits(runner_id, adapter_id);
}

int32_t PickFewestRequests(const Fleet& fleet, const PlacementQuery& query) {
  HolderWalk holders = fleet.WalkHolders(query.request.adapter);
  return PickLeast<std::pair<int64_t, bool>>(
      fleet, [&](size_t i) { return CanServe(fleet, i, query); },
      [&](size_t i) { return std::pair(fleet.runner(i).num_requests, !holders.Holds(i)); });
}

namespace {

// CaraServe's "MostIdle": the runner with the fewest requests, of equally idle ones one that holds
// the adapter.
class MostIdle : public PlacementPolicy {
 public:
  int32_t Pick(const Fleet& fleet, const PlacementQuery& query) override {
    return PickFewestRequests(fleet, query);
  }
};

// CaraServe's "FirstFit": the first runner with room; where there is none, the most idle one.
class FirstFit : public PlacementPolicy {
 public:
  int32_t Pick(const Fleet& fleet, const PlacementQuery& query) override {
    for (size_t i = 0; i < fleet.num_runners(); ++i) {
      if (HasRoom(fleet, i, query)) return static_cast<int32_t>(i);
    }
    return PickFewestRequests(fleet, query);
  }
};

// Punica, section 5.1. Among the runners with room in batch and pages it chooses the one with the
// most requests, of equals the one with the highest id. Requests that find no room wait in one
// line, first come, first served. Busy runners stay busy and idle ones idle, so that whole runners
// can be given back.
class Punica : public PlacementPolicy {
 public:
  int32_t Pick(const Fleet& fleet, const PlacementQuery& query) override {
    return PickLeast<std::pair<int64_t, uint64_t>>(
        fleet, [&](size_t i) { return HasRoom(fleet, i, query); },
        [&](size_t i) {
          const RunnerState& runner = fleet.runner(i);
          return std::pair(-runner.num_requests, ~runner.id);
        });
  }
  bool keeps_order() const override { return true; }
};

// CaraServe's "Random": any runner with room, all alike; where there is none, any at all.
class RandomChoice : public PlacementPolicy {
 public:
  explicit RandomChoice(uint64_t seed) : random_(seed) {}

  int32_t Pick(const Fleet& fleet, const PlacementQuery& query) override {
    Collect(fleet, [&](size_t i) { return HasRoom(fleet, i, query); });
    if (candidates_.empty()) Collect(fleet, [&](size_t i) { return CanServe(fleet, i, query); });
    return candidates_.empty() ? kNoRunner : candidates_[random_.Below(candidates_.size())];
  }

 private:
  template <typename Condition>
  void Collect(const Fleet& fleet, const Condition& holds) {
    candidates_.clear();
    for (size_t i = 0; i < fleet.num_runners(); ++i) {
      if (holds(i)) candidates_.push_back(static_cast<int32_t>(i));
    }
  }

  Random random_;
  std::vector<int32_t> candidates_;  // scratch
};

// Rendezvous hashing (Thaler and Ravishankar, 1998). A hash of adapter and runner gives each
// adapter an order of all runners, and a request goes to the first of them with room. A runner that
// comes or goes moves only its own adapters. The base model has no such order: its requests go to
// the most idle runner.
class Rendezvous : public PlacementPolicy {
 public:
  int32_t Pick(const Fleet& fleet, const PlacementQuery& query) override {
    if (query.request.adapter == kBaseModel) return PickFewestRequests(fleet, query);
    return PickRoomFirst<uint64_t>(fleet, query, [&](size_t i) {
      return ~RendezvousWeight(query.request.adapter_id, fleet.runner(i).id);
    });
  }
};

constexpr double kPenaltyMs = 1e9;

// CaraServe, section 5, Algorithm 1. By linear cost models it computes what the request would cost
// the requests of each runner: each of their tokens takes longer as the step does, and all of them
// wait once for the new prompt, shared out over the tokens of an answer. A runner that would then
// exceed the bound on a token's time gets a penalty, so that every runner that meets the bound is
// cheaper.
class CaraServe : public PlacementPolicy {
 public:
  explicit CaraServe(const PlacementOptions& options)
      : costs_(options.costs), slo_ms_(options.SloMs()) {}

  int32_t Pick(const Fleet& fleet, const PlacementQuery& query) override {
    return PickRoomFirst<double>(fleet, query,
                                 [&](size_t i) { return CostOn(fleet, i, query.request); });
  }

 private:
  double CostOn(const Fleet& fleet, size_t idx, const PlacedRequest& request) const {
    const BatchRanks before = fleet.RanksOf(idx);
    BatchRanks after = before;
    after.Add(request.rank);
    const double with_ms = costs_.DecodeMs(after);
    const double longer_ms = with_ms - costs_.DecodeMs(before);
    const double prompt_ms =
        costs_.prompt.ms_per_unit * request.prompt_tokens / fleet.MeanOutputTokens();
    const double cost = static_cast<double>(before.num_requests) * (longer_ms + prompt_ms);
    return with_ms > slo_ms_ ? cost + kPenaltyMs : cost;
  }

  const CostModel costs_;
  const double slo_ms_;
};

}  // namespace

std::unique_ptr<PlacementPolicy> MakePlacementPolicy(const PlacementOptions& options) {
  switch (options.kind) {
    case PlacementKind::kMostIdle:
      break;
    case PlacementKind::kPunica:
      return std::make_unique<Punica>();
    case PlacementKind::kFirstFit:
      return std::make_unique<FirstFit>();
    case PlacementKind::kRandom:
      return std::make_unique<RandomChoice>(options.seed);
    case PlacementKind::kRendezvous:
      return std::make_unique<Rendezvous>();
    case PlacementKind::kMinCostFlow:
      return MakeMinCostFlow();
    case PlacementKind::kCaraServe:
      return std::make_unique<CaraServe>(options);
    case PlacementKind::kAuto:
      return MakeAuto(options);
  }
  return std::make_unique<MostIdle>();
}

}  // namespace graft
