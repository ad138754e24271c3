// Punica, section 5.1: the runner with the most requests of those with room in batch and pages, of
// equals the one with the highest id. What finds no room waits in one line, first come, first
// served. Busy runners stay busy and idle ones idle, so that whole runners can be given back.
#include "placement/policy.h"

namespace graft {
namespace {

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

}  // namespace

std::unique_ptr<PlacementPolicy> MakePunica() { return std::make_unique<Punica>(); }

}  // namespace graft
