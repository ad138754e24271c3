#include "placement/consolidation.h"

#include <algorithm>

namespace graft {
namespace {

// The part of what is saved that moving may cost, as predictions are not exact.
constexpr double kCostShareMax = 0.5;

double MoveMs(const MovableRequest& request, const CostModel& costs) {
  return costs.PromptMsOf(static_cast<double>(request.tokens), 0.0, request.rank, request.rank);
}

// Answers are as long as those that ended of late; how much a request has drawn tells nothing of
// what is left.
double TokensLeft(const Fleet& fleet, const MovableRequest& request) {
  return std::min(std::max(1.0, fleet.MeanOutputTokens()),
                  std::max(1.0, static_cast<double>(request.tokens_left_max)));
}

double StepMsOn(const Fleet& fleet, size_t runner, const CostModel& costs) {
  return costs.StepMs({.ranks = fleet.RanksOf(runner)});
}

}  // namespace

bool IsWorthMoving(const Fleet& fleet, size_t runner, const MovableRequest& request,
                   const CostModel& costs) {
  return MoveMs(request, costs) <
         kCostShareMax * StepMsOn(fleet, runner, costs) * TokensLeft(fleet, request);
}

bool IsWorthEmptying(const Fleet& fleet, size_t runner, std::span<const MovableRequest> requests,
                     std::span<const uint8_t> is_target, const CostModel& costs) {
  int64_t num_places = 0;
  for (size_t i = 0; i < fleet.num_runners(); ++i) {
    const RunnerState& other = fleet.runner(i);
    if (i == runner || !other.is_open || is_target[i] == 0) continue;
    if (other.batch_max <= 0) return false;  // it does not say what it could take
    num_places += std::max<int64_t>(0, other.batch_max - other.num_requests);
  }
  if (num_places < static_cast<int64_t>(requests.size())) return false;
  // The last of n ends after 1 + 1/2 + ... + 1/n of a mean answer, and within its own bound.
  double cost_ms = 0.0, left = 0.0, left_most = 0.0, harmonic = 0.0;
  for (size_t i = 0; i < requests.size(); ++i) {
    cost_ms += MoveMs(requests[i], costs);
    harmonic += 1.0 / static_cast<double>(i + 1);
    left = std::max(left, TokensLeft(fleet, requests[i]));
    left_most = std::max(left_most, static_cast<double>(requests[i].tokens_left_max));
  }
  const double saved_ms =
      StepMsOn(fleet, runner, costs) * std::min(left * harmonic, std::max(left, left_most));
  return cost_ms < kCostShareMax * saved_ms;
}

}  // namespace graft
