// RunnerSet's places for requests in flight, which tenants share.
#include <algorithm>
#include <string>
#include <utility>

#include "cluster/runner_set.h"

namespace graft {
namespace {

// Where all answers of the tenant with the most requests have begun, tenants with few may take one
// place beyond the limit for so many places.
constexpr int32_t kPlacesForOneMore = 8;

}  // namespace

Status RunnerSet::FindPlace(const Request& request) {
  const int32_t places_max = options_.limits.requests_max;
  if (places_.num_taken() < places_max || TakePlace(request)) return OkStatus();
  return ResourceExhaustedError("the frontend has " + std::to_string(places_.num_taken()) +
                                " requests in flight, which is all that it may have; try again "
                                "later");
}

int32_t RunnerSet::RetryAfterS(const std::string& tenant, double weight) {
  std::lock_guard lock(mutex_);
  return places_.RetryAfterS(tenant, weight, NowNs());
}

bool RunnerSet::TakePlace(const Request& request) {
  const std::string* const giver =
      places_.GiverTo(request.tenant, request.tenant_weight, /*kept=*/0);
  if (giver == nullptr) return false;
  const auto undrawn = undrawn_.find(*giver);
  if (undrawn == undrawn_.end()) {
    const int32_t places_max = options_.limits.requests_max;
    return places_.num_taken() < places_max + std::max(1, places_max / kPlacesForOneMore);
  }
  InFlight& newest = **undrawn->second.rbegin();
  if (newest.runner != kNowhere) links_[newest.runner]->Cancel(newest.number);
  TokenEvent event = {.finish_reason = FinishReason::kError};
  event.status = ResourceExhaustedError(
      "the frontend is full, and the request's place was given to a tenant with fewer requests "
      "there; try again later");
  End(newest, std::move(event), /*gives_place=*/true);
  return true;
}

void RunnerSet::EnterPlace(InFlight& one) {
  const Request& request = one.request;
  places_.Enter(request.tenant, NowNs());
  places_.SetWeight(request.tenant, request.tenant_weight);
  if (request.output_tokens.empty()) undrawn_[request.tenant].insert(&one);
}

void RunnerSet::NoteDrawn(InFlight& one) {
  const auto undrawn = undrawn_.find(one.request.tenant);
  if (undrawn == undrawn_.end()) return;
  undrawn->second.erase(&one);
  if (undrawn->second.empty()) undrawn_.erase(undrawn);
}

void RunnerSet::LeavePlace(InFlight& one, bool gives_place) {
  NoteDrawn(one);
  if (gives_place) {
    places_.Give(one.request.tenant);
  } else {
    places_.Leave(one.request.tenant, NowNs());
  }
}

}  // namespace graft
