// Graft's own placement policy. It chooses the runner for which all requests together, those there
// and the new one, are predicted to wait least, in milliseconds. These terms count:
//
//  - The requests there: their steps take longer by what the new one adds, for as long as both run,
//    and they wait for its prompt. That wait costs most for requests that came just before: they
//    have few tokens to spread it over, and some end soon. So prompts come to a runner one after
//    the other.
//  - Padding, where kernels pad: a rank above those there makes all their rows longer, and a rank
//    below the largest has longer rows itself. Requests that come later pay for it, too.
//  - The prompt: only the part that the runner has not cached, as its digest of prefixes says.
//  - The request itself: it waits until the batch has a place and the runner pages, then for the
//    prompts before its own, then for what the requests there add to its steps.
//  - The bound on a token's time: requests that are pushed beyond it count as if their tokens took
//    longer by a part of the bound. Near the bound requests are kept below it; where there are too
//    many for that, few runners bear them.
//  - A load, where the runner lacks the adapter: it waits for the loads before it and for a place,
//    and takes the place of an adapter that may soon be asked for there again. An adapter has as
//    many copies as its load fills runners; each further one costs more, so copies grow with the
//    load and not with every burst.
//  - A tenant that has more in flight than its share makes others wait: their time counts by how
//    many times it has more.
//  - Opening an idle runner costs a little, so that it stays idle where the difference is small.
//
// Among equally good runners the adapter's hash decides, so that rare adapters come back to a
// runner that has them in its memory.
#include <algorithm>
#include <cmath>

#include "placement/policy.h"

namespace graft {
namespace {

// Requests that an adapter has at once before a second copy is worth it, where batches are unknown.
constexpr double kCopyLoad = 16.0;
// The share of a batch that one adapter fills before it gets another copy.
constexpr double kCopyShareOfBatch = 0.5;
// An adapter that was thrown out is missed if it is asked for again so soon.
constexpr double kMissedSeconds = 4.0;
// An idle runner is opened if it saves more than this part of a request's time alone.
constexpr double kIdleShare = 0.01;
// What the adapter's own order of runners is worth, as a share of a load.
constexpr double kOrderShare = 0.25;
// The wait for others' pages, as a share of an answer's time: by then some are given back.
constexpr double kPagesShare = 0.5;
// A token of a request beyond the bound counts as longer by this share of the bound.
constexpr double kBeyondShare = 0.05;
// How well being beyond is predicted: the middle and the width of the curve, in shares of the
// bound.
constexpr double kBeyondMiddle = 1.03;
constexpr double kBeyondWidth = 0.02;
// Requests of other frontends come unseen. The more of the requests there are others', the more the
// bound counts, and the earlier.
constexpr double kBeyondMoreForOthers = 2.0;
constexpr double kBeyondEarlierForOthers = 0.06;
// Two requests slow each other down, whichever came first: half of it counts on either side.
constexpr double kPairShare = 0.5;
// Padding lasts for as long as ranks stay mixed, so later requests bear it, too: it counts so many
// times for each request in the batch.
constexpr double kPaddingWeight = 3.0;
// For a prompt, a request that came just now counts as so many more; fewer with each step since.
constexpr double kYoungWeight = 8.0;
constexpr double kYoungSteps = 15.0;
// A wait for the first token shows nothing and holds up requests behind: it counts so many times.
constexpr double kWaitWeight = 8.0;
// No step is shorter, whatever a cost file says.
constexpr double kLeastStepMs = 0.01;
// Loads that a runner has under way at once.
constexpr double kLoadsAtOnce = 4.0;

// The step by which age is counted. A cost file may have 0 where all of a step goes by its rows.
double StepMsOfOne(const CostModel& costs) {
  if (costs.step_ms > 0.0) return costs.step_ms;
  BatchRanks one;
  one.Add(0);
  return std::max(costs.StepMs({.ranks = one}), kLeastStepMs);
}

class Auto : public PlacementPolicy {
 public:
  explicit Auto(const PlacementOptions& options)
      : costs_(options.costs), slo_ms_(options.SloMs()), young_step_ms_(StepMsOfOne(costs_)) {}

  bool reads_prefixes() const override { return true; }

  int32_t Pick(const Fleet& fleet, const PlacementQuery& query) override {
    young_.resize(fleet.num_runners());
    Common common = Prepare(fleet, query);
    const int32_t picked = PickLeast<std::pair<double, uint64_t>>(
        fleet, [&](size_t i) { return CanServe(fleet, i, query); },
        [&](size_t i) {
          const uint64_t weight = RendezvousWeight(query.request.adapter_id, fleet.runner(i).id);
          return std::pair(CostOn(fleet, i, query, common, weight), ~weight);
        });
    if (picked == kNoRunner) return picked;
    const auto idx = static_cast<size_t>(picked);
    young_[idx] = {NumYoung(idx, query.now_ns) + 1.0, query.now_ns};
    return picked;
  }

 private:
  // What is the same on every runner, for one request.
  struct Common {
    double mean_tokens = 1.0;            // of an answer
    double output_tokens = 0.0;          // expected
    std::vector<int32_t> cached_tokens;  // of the prompt, by runner; empty: none
    double load_ms = 0.0;
    double copies = 0.0;    // that there are
    double load = 0.0;      // of the adapter, requests at once
    double pressure = 1.0;  // of the tenant
    double idle_ms = 0.0;
    // Asked for one runner after the other.
    HolderWalk holders;
    std::span<const RunnerCount> own;  // of the tenant, what is left of them
  };
  // Requests that came to a runner of late, older ones counting less, as of `ns`.
  struct Young {
    double num = 0.0;
    int64_t ns = 0;
  };
  // How fast a runner's requests go.
  struct Pace {
    double step_ms = 0.0;   // without prompts
    double token_ms = 0.0;  // with as many prompts as those there bring
  };

  Common Prepare(const Fleet& fleet, const PlacementQuery& query) const {
    const PlacedRequest& request = query.request;
    Common common = {.holders = fleet.WalkHolders(request.adapter),
                     .own = fleet.TenantRequests(request.tenant)};
    common.mean_tokens = std::max(1.0, fleet.MeanOutputTokens());
    common.output_tokens =
        std::min(common.mean_tokens, std::max(1.0, double{1} * request.output_tokens_max));
    common.cached_tokens = fleet.CachedTokens(request);
    common.pressure = fleet.Pressure(request.tenant, request.tenant_weight);
    BatchRanks alone;
    alone.Add(request.rank);
    common.idle_ms = kIdleShare * costs_.StepMs({.ranks = alone}) * common.output_tokens;
    if (request.adapter == kBaseModel) return common;
    common.load_ms = costs_.fetch_ms + costs_.LoadMs(request.rank);
    common.copies = static_cast<double>(fleet.Holders(request.adapter).size());
    common.load = fleet.LoadOf(request.adapter, query.now_ns);
    return common;
  }

  // The tenant's own requests there; their time counts once.
  static double OwnRequests(size_t idx, Common* common) {
    const auto number = static_cast<int32_t>(idx);
    while (!common->own.empty() && common->own.front().runner < number) {
      common->own = common->own.subspan(1);
    }
    if (common->own.empty() || common->own.front().runner != number) return 0.0;
    return common->own.front().count;
  }

  // Answers in flight have as many tokens behind them as answers have on average.
  Pace PaceOf(const BatchRanks& ranks, double prompt_tokens, double mean_tokens) const {
    const auto num = static_cast<double>(ranks.num_requests);
    const auto context = static_cast<int64_t>(prompt_tokens + num * mean_tokens);
    const double step_ms = costs_.StepMs({.ranks = ranks, .context_tokens = context});
    if (num <= 0.0) return {step_ms, step_ms};
    const double token_ms = costs_.PromptTokenMs(
        prompt_tokens / num / 2.0, static_cast<double>(ranks.sum) / num, ranks.largest);
    const double with_prompts_ms = costs_.step_ms_with_prompts * std::min(num, mean_tokens);
    return {step_ms, step_ms + (token_ms * prompt_tokens + with_prompts_ms) / mean_tokens};
  }

  // The time for the runner's prompts that have drawn nothing yet, each as long as those of late.
  double UndrawnMs(const Fleet& fleet, size_t idx, const BatchRanks& ranks) const {
    const auto tokens = static_cast<double>(fleet.UndrawnPromptTokens(idx));
    if (tokens <= 0.0 || ranks.num_requests == 0) return 0.0;
    const double each = std::max(1.0, fleet.MeanPromptTokens());
    const double rank = static_cast<double>(ranks.sum) / static_cast<double>(ranks.num_requests);
    return tokens * costs_.PromptTokenMs(each / 2.0, rank, ranks.largest) +
           costs_.step_ms_with_prompts * std::max(1.0, tokens / each);
  }

  // What a token adds by being likely beyond the bound.
  double BeyondMs(double token_ms, double share_of_others) const {
    const double middle = kBeyondMiddle - kBeyondEarlierForOthers * share_of_others;
    const double share = 1.0 / (1.0 + std::exp((middle - token_ms / slo_ms_) / kBeyondWidth));
    return kBeyondShare * (1.0 + kBeyondMoreForOthers * share_of_others) * slo_ms_ * share;
  }

  double NumYoung(size_t idx, int64_t now_ns) const {
    const Young& young = young_[idx];
    if (young.num <= 0.0) return 0.0;
    const double steps = static_cast<double>(now_ns - young.ns) * 1e-6 / young_step_ms_;
    return young.num * std::exp(-std::max(0.0, steps) / kYoungSteps);
  }

  double CostOn(const Fleet& fleet, size_t idx, const PlacementQuery& query, Common& common,
                uint64_t weight) const {
    const PlacedRequest& request = query.request;
    const BatchRanks before = fleet.RanksOf(idx);
    BatchRanks after = before;
    after.Add(request.rank);
    const double prompts = fleet.PromptTokensOf(idx);
    const Pace alone = PaceOf(before, prompts, common.mean_tokens);
    Pace with = PaceOf(after, prompts + request.prompt_tokens, common.mean_tokens);
    const double cached = common.cached_tokens.empty() ? 0.0 : common.cached_tokens[idx];
    const double prompt_ms =
        costs_.PromptMsOf(request.prompt_tokens - cached, cached, request.rank, after.largest);
    const double saved_ms =
        costs_.PromptMsOf(request.prompt_tokens, 0.0, request.rank, after.largest) - prompt_ms;
    with.token_ms -= saved_ms / common.mean_tokens;
    const auto num_there = static_cast<double>(before.num_requests);
    double num_weighed = num_there;
    if (common.pressure > 1.0) {
      const double own = OwnRequests(idx, &common);
      num_weighed = own + common.pressure * std::max(0.0, num_there - own);
    }
    const double num_stalled = num_weighed + kYoungWeight * NumYoung(idx, query.now_ns);
    double cost = num_weighed * kPairShare * (with.step_ms - alone.step_ms) * common.output_tokens +
                  kPairShare * with.token_ms * common.output_tokens + num_stalled * prompt_ms +
                  UndrawnMs(fleet, idx, before) - saved_ms;
    cost += kPaddingWeight * (num_there + 1.0) * common.output_tokens *
            (costs_.PaddingMs(after) - costs_.PaddingMs(before));
    const double others = fleet.ShareOfOthers(idx);
    cost += common.output_tokens * ((num_weighed + 1.0) * BeyondMs(with.token_ms, others) -
                                    num_weighed * BeyondMs(alone.token_ms, others));
    const double answer_ms = with.token_ms * common.mean_tokens;
    cost += kWaitWeight * WaitMs(fleet, idx, query, answer_ms);
    if (before.num_requests == 0) cost += common.idle_ms;
    if (!common.holders.Holds(idx)) {
      cost += LoadMs(fleet, idx, query, common, answer_ms);
      // In [0, 1): none of it for the first of the adapter's order.
      cost += kOrderShare * common.load_ms * (1.0 - static_cast<double>(weight >> 11) * 0x1.0p-53);
    }
    return cost;
  }

  // The wait until the batch has a place for the request, and the pool has pages.
  double WaitMs(const Fleet& fleet, size_t idx, const PlacementQuery& query,
                double answer_ms) const {
    const RunnerState& runner = fleet.runner(idx);
    double wait_ms = 0.0;
    if (runner.batch_max > 0 && runner.num_requests >= runner.batch_max) {
      const auto num_before = static_cast<double>(runner.num_requests - runner.batch_max + 1);
      wait_ms += answer_ms * num_before / runner.batch_max;
    }
    if (LacksPages(runner, query.request)) wait_ms += kPagesShare * answer_ms;
    return wait_ms;
  }

  // The cost of the load itself after those before it, of what it throws out or the wait until
  // something can go, and of a copy beyond those that the adapter's load fills.
  double LoadMs(const Fleet& fleet, size_t idx, const PlacementQuery& query, const Common& common,
                double answer_ms) const {
    const RunnerState& runner = fleet.runner(idx);
    const double fills =
        runner.batch_max > 0 ? std::max(1.0, kCopyShareOfBatch * runner.batch_max) : kCopyLoad;
    const double wanted = std::max(1.0, std::ceil(common.load / fills));
    const double beyond = std::max(0.0, common.copies - wanted + 1.0);
    double missed = 0.0, wait_ms = 0.0;
    const int32_t leaving = fleet.FirstToGo(idx);
    if (leaving != kBaseModel) {
      missed = std::min(1.0, fleet.RateOf(leaving, query.now_ns) * kMissedSeconds / 2.0);
    } else if (runner.adapters_max > 0 &&
               fleet.NumHeld(idx) >= static_cast<size_t>(runner.adapters_max)) {
      const auto num_before = static_cast<double>(fleet.NumBeyondPlaces(idx) + 1);
      wait_ms = kWaitWeight * answer_ms * num_before / runner.adapters_max;
      missed = 1.0;
    }
    const double times =
        1.0 + kWaitWeight * fleet.NumComing(idx) / kLoadsAtOnce + missed * (1.0 + beyond);
    return common.load_ms * times + wait_ms;
  }

  const CostModel costs_;
  const double slo_ms_;
  const double young_step_ms_;
  std::vector<Young> young_;  // by runner
};

}  // namespace

std::unique_ptr<PlacementPolicy> MakeAuto(const PlacementOptions& options) {
  return std::make_unique<Auto>(options);
}

}  // namespace graft
