// CaraServe, section 5, Algorithm 1: by linear cost models, what the request would cost those that
// a runner serves: each of their tokens takes longer by what the step does, and all wait for its
// prompt once, shared out over the tokens of an answer. A runner that would then be slower than the
// bound on a token's time pays a penalty, so that every runner that meets the bound is cheaper.
#include "placement/policy.h"

namespace graft {
namespace {

constexpr double kPenaltyMs = 1e9;

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

std::unique_ptr<PlacementPolicy> MakeCaraServe(const PlacementOptions& options) {
  return std::make_unique<CaraServe>(options);
}

}  // namespace graft
