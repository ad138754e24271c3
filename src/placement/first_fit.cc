// CaraServe's "FirstFit": the first runner with room; where there is none, the most idle one.
#include "placement/policy.h"

namespace graft {
namespace {

class FirstFit : public PlacementPolicy {
 public:
  int32_t Pick(const Fleet& fleet, const PlacementQuery& query) override {
    for (size_t i = 0; i < fleet.num_runners(); ++i) {
      if (HasRoom(fleet, i, query)) return static_cast<int32_t>(i);
    }
    return PickFewestRequests(fleet, query);
  }
};

}  // namespace

std::unique_ptr<PlacementPolicy> MakeFirstFit() { return std::make_unique<FirstFit>(); }

}  // namespace graft
