// CaraServe's "MostIdle", and what a frontend does unless told otherwise: the runner with the
// fewest requests, of equally idle ones one that holds the adapter.
#include "placement/policy.h"

namespace graft {
namespace {

class MostIdle : public PlacementPolicy {
 public:
  int32_t Pick(const Fleet& fleet, const PlacementQuery& query) override {
    return PickFewestRequests(fleet, query);
  }
};

}  // namespace

std::unique_ptr<PlacementPolicy> MakeMostIdle() { return std::make_unique<MostIdle>(); }

}  // namespace graft
