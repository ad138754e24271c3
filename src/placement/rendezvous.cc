// Rendezvous hashing (Thaler and Ravishankar, 1998): an adapter has an order of all runners, by a
// hash of both, and goes to the first of them with room. A runner that comes or goes moves its own
// adapters alone. The base model has no such order: it goes to the most idle.
#include "placement/policy.h"

namespace graft {
namespace {

class Rendezvous : public PlacementPolicy {
 public:
  int32_t Pick(const Fleet& fleet, const PlacementQuery& query) override {
    if (query.request.adapter == kBaseModel) return PickFewestRequests(fleet, query);
    return PickRoomFirst<uint64_t>(fleet, query, [&](size_t i) {
      return ~RendezvousWeight(query.request.adapter_id, fleet.runner(i).id);
    });
  }
};

}  // namespace

std::unique_ptr<PlacementPolicy> MakeRendezvous() { return std::make_unique<Rendezvous>(); }

}  // namespace graft
