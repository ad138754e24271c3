// Graft's own policy: the runner where all requests together, those there and the new one, are
// predicted to wait least, in milliseconds.
//
//  - Those there: their steps take longer by what the request adds to them, for as long as it runs,
//    and they wait for its prompt.
//  - The request: until the batch has a place and the runner pages, for the prompts before its own,
//    then its own steps there.
//  - A copy, where the runner lacks the adapter, and the adapter that it throws out, by how likely
//    requests ask for that one again there soon. An adapter has as many copies as its load fills
//    runners; each further one costs more, so copies grow with the load and not with every burst.
//  - A tenant that has more in flight than its share makes others wait: their time counts by how
//    many times it has more.
//  - Opening an idle runner costs a little, so that where nobody would notice, runners stay idle.
//
// Of equally good runners the adapter's hash decides, so that rare adapters come back to a runner
// which has them in its memory.
#include <algorithm>
#include <cmath>

#include "placement/policy.h"

namespace graft {
namespace {

// Requests that an adapter has at once before a second copy is worth it, where batches are unknown.
constexpr double kCopyLoad = 16.0;
// The share of a batch that one adapter fills before it gets another copy.
constexpr double kCopyShareOfBatch = 0.5;
// What was thrown out is missed if it is asked for again so soon.
constexpr double kMissedSeconds = 30.0;
// The part of a request's time alone that an idle runner may save before it is opened.
constexpr double kIdleShare = 0.02;
// What the adapter's own order of runners is worth, of a copy.
constexpr double kOrderShare = 0.25;
// Of the wait for others' pages: half of an answer's time until some are given back.
constexpr double kPagesShare = 0.5;

class Auto : public PlacementPolicy {
 public:
  explicit Auto(const PlacementOptions& options) : costs_(options.costs) {}

  int32_t Pick(const Fleet& fleet, const PlacementQuery& query) override {
    Common common = Prepare(fleet, query);
    return PickLeast<std::pair<double, uint64_t>>(
        fleet, [&](size_t i) { return CanServe(fleet, i, query); },
        [&](size_t i) {
          const uint64_t weight = RendezvousWeight(query.request.adapter_id, fleet.runner(i).id);
          return std::pair(CostOn(fleet, i, query, common, weight), ~weight);
        });
  }

 private:
  // Of the request, the same on every runner.
  struct Common {
    double output_tokens = 0.0;  // expected
    double others_tokens = 0.0;  // that those there are expected to draw meanwhile
    double prompt_ms = 0.0;
    double load_ms = 0.0;
    double copies = 0.0;    // that there are
    double load = 0.0;      // of the adapter, requests at once
    double pressure = 1.0;  // of the tenant
    double idle_ms = 0.0;
    // Asked for one runner after the other.
    HolderWalk holders;
    std::span<const RunnerCount> own;  // of the tenant, what is left of them
  };

  Common Prepare(const Fleet& fleet, const PlacementQuery& query) const {
    const PlacedRequest& request = query.request;
    Common common = {.holders = fleet.WalkHolders(request.adapter),
                     .own = fleet.TenantRequests(request.tenant)};
    const double mean = std::max(1.0, fleet.MeanOutputTokens());
    common.output_tokens = std::min(mean, std::max(1.0, double{1} * request.output_tokens_max));
    common.others_tokens = common.output_tokens / 2;
    common.prompt_ms = costs_.step_ms_per_prompt_token * request.prompt_tokens;
    common.pressure = fleet.Pressure(request.tenant, request.tenant_weight);
    BatchRanks alone;
    alone.Add(request.rank);
    common.idle_ms = kIdleShare * costs_.StepMs({.ranks = alone}) * common.output_tokens;
    if (request.adapter == kBaseModel) return common;
    common.load_ms = costs_.LoadMs(request.rank);
    common.copies = static_cast<double>(fleet.Holders(request.adapter).size());
    common.load = fleet.LoadOf(request.adapter, query.now_ns);
    return common;
  }

  // The tenant's own there: their time counts as ever.
  static double OwnRequests(size_t idx, Common* common) {
    const auto number = static_cast<int32_t>(idx);
    while (!common->own.empty() && common->own.front().runner < number) {
      common->own = common->own.subspan(1);
    }
    if (common->own.empty() || common->own.front().runner != number) return 0.0;
    return common->own.front().count;
  }

  double CostOn(const Fleet& fleet, size_t idx, const PlacementQuery& query, Common& common,
                uint64_t weight) const {
    const RunnerState& runner = fleet.runner(idx);
    const BatchRanks before = fleet.RanksOf(idx);
    BatchRanks after = before;
    after.Add(query.request.rank);
    const double with_ms = costs_.StepMs({.ranks = after});
    const double longer_ms = with_ms - costs_.StepMs({.ranks = before});
    const auto num_there = static_cast<double>(before.num_requests);
    double num_weighed = num_there;
    if (common.pressure > 1.0) {
      const double own = OwnRequests(idx, &common);
      num_weighed = own + common.pressure * std::max(0.0, num_there - own);
    }
    double cost = num_weighed * (longer_ms * common.others_tokens + common.prompt_ms);
    cost += with_ms * common.output_tokens + common.prompt_ms +
            costs_.step_ms_per_prompt_token * static_cast<double>(fleet.UndrawnPromptTokens(idx));
    cost += WaitMs(fleet, idx, query, with_ms);
    if (before.num_requests == 0) cost += common.idle_ms;
    if (!common.holders.Holds(idx)) {
      cost += CopyMs(fleet, idx, query, common, runner);
      // In [0, 1): none of it for the first of the adapter's order.
      cost += kOrderShare * common.load_ms * (1.0 - static_cast<double>(weight >> 11) * 0x1.0p-53);
    }
    return cost;
  }

  // Until the batch has a place for it, and the pool pages.
  double WaitMs(const Fleet& fleet, size_t idx, const PlacementQuery& query, double step_ms) const {
    const RunnerState& runner = fleet.runner(idx);
    const double answer_ms = step_ms * std::max(1.0, fleet.MeanOutputTokens());
    double wait_ms = 0.0;
    if (runner.batch_max > 0 && runner.num_requests >= runner.batch_max) {
      const auto num_before = static_cast<double>(runner.num_requests - runner.batch_max + 1);
      wait_ms += answer_ms * num_before / runner.batch_max;
    }
    if (runner.page_tokens > 0 &&
        runner.pages_free <= query.request.prompt_tokens / runner.page_tokens + 1) {
      wait_ms += kPagesShare * answer_ms;
    }
    return wait_ms;
  }

  // The copy itself, what it throws out, and how far it is beyond the copies that the load fills.
  double CopyMs(const Fleet& fleet, size_t idx, const PlacementQuery& query, const Common& common,
                const RunnerState& runner) const {
    double times = 1.0;
    const int32_t leaving = fleet.FirstToGo(idx);
    if (leaving != kBaseModel) {
      const double rate = fleet.RateOf(leaving, query.now_ns);
      times += std::min(1.0, rate * kMissedSeconds / 2.0);
    } else if (runner.adapters_max > 0 &&
               fleet.NumHeld(idx) >= static_cast<size_t>(runner.adapters_max)) {
      // All are in use: it waits until one is not.
      return common.load_ms + WaitForSlotMs(fleet, idx);
    }
    const double fills =
        runner.batch_max > 0 ? std::max(1.0, kCopyShareOfBatch * runner.batch_max) : kCopyLoad;
    const double wanted = std::max(1.0, std::ceil(common.load / fills));
    if (common.copies >= wanted) times += common.copies - wanted + 1.0;
    return common.load_ms * times;
  }

  double WaitForSlotMs(const Fleet& fleet, size_t idx) const {
    const BatchRanks there = fleet.RanksOf(idx);
    return costs_.StepMs({.ranks = there}) * std::max(1.0, fleet.MeanOutputTokens()) /
           std::max<double>(1.0, static_cast<double>(there.num_requests));
  }

  const CostModel costs_;
};

}  // namespace

std::unique_ptr<PlacementPolicy> MakeAuto(const PlacementOptions& options) {
  return std::make_unique<Auto>(options);
}

}  // namespace graft
