// CaraServe's "Random": any runner with room, all alike; where there is none, any at all.
#include "base/random.h"
#include "placement/policy.h"

namespace graft {
namespace {

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

}  // namespace

std::unique_ptr<PlacementPolicy> MakeRandomChoice(uint64_t seed) {
  return std::make_unique<RandomChoice>(seed);
}

}  // namespace graft
