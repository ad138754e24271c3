#include "cluster/requests_in_flight.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace graft {
namespace {

// Where all answers of the tenant with the most requests have begun, tenants with few may take one
// place beyond the limit for so many places.
constexpr int32_t kPlacesForOneMore = 8;

}  // namespace

bool RequestsInFlight::FindPlace(const Request& request, InFlight** giver) {
  *giver = nullptr;
  if (places_.num_taken() < places_max_) return true;
  const std::string* const tenant =
      places_.GiverTo(request.tenant, request.tenant_weight, /*kept=*/0);
  if (tenant == nullptr) return false;
  const auto undrawn = undrawn_.find(*tenant);
  if (undrawn == undrawn_.end()) {
    return places_.num_taken() < places_max_ + std::max(1, places_max_ / kPlacesForOneMore);
  }
  *giver = *undrawn->second.rbegin();
  return true;
}

InFlight& RequestsInFlight::Add(std::unique_ptr<InFlight> one, int64_t now_ns) {
  InFlight& added = *one;
  added.arrival = num_arrivals_++;
  CHECK(all_.emplace(added.id, std::move(one)).second) << "two requests have one id";
  const Request& request = added.request;
  places_.Enter(request.tenant, now_ns);
  places_.SetWeight(request.tenant, request.tenant_weight);
  if (request.output_tokens.empty()) undrawn_[request.tenant].insert(&added);
  return added;
}

std::unique_ptr<InFlight> RequestsInFlight::Remove(InFlight& one, bool gives_place,
                                                   int64_t now_ns) {
  if (one.IsOnRunner()) TakeOff(one);
  waiting_.erase(&one);
  line_.erase(&one);
  LeaveUndrawn(one);
  if (gives_place) {
    places_.Give(one.request.tenant);
  } else {
    places_.Leave(one.request.tenant, now_ns);
  }
  return std::move(all_.extract(one.id).mapped());
}

void RequestsInFlight::PutOn(InFlight& one, size_t runner) {
  waiting_.erase(&one);
  line_.erase(&one);
  one.runner = runner;
  one.number = next_number_++;
  one.has_drawn_here = false;
  by_number_[one.number] = &one;
}

void RequestsInFlight::TakeOff(InFlight& one) {
  by_number_.erase(one.number);
  one.runner = InFlight::kNowhere;
}

void RequestsInFlight::Wait(InFlight& one, int64_t now_ns) {
  waiting_.insert(&one);
  if (one.waiting_since_ns == 0) one.waiting_since_ns = now_ns;
}

void RequestsInFlight::Draw(InFlight& one, int32_t token) {
  if (one.request.output_tokens.empty()) LeaveUndrawn(one);
  one.request.output_tokens.push_back(token);
  one.has_drawn_here = true;
  one.waiting_since_ns = one.ask_lacking_ns = 0;
}

void RequestsInFlight::LeaveUndrawn(InFlight& one) {
  const auto undrawn = undrawn_.find(one.request.tenant);
  if (undrawn == undrawn_.end()) return;
  undrawn->second.erase(&one);
  if (undrawn->second.empty()) undrawn_.erase(undrawn);
}

void RequestsInFlight::ForgetRefusals(size_t runner) {
  for (auto& [id, one] : all_) std::erase(one->refused, runner);
  ForgetLacking(runner);
}

void RequestsInFlight::ForgetLacking(size_t runner) {
  for (auto& [id, one] : all_) std::erase(one->lacking, runner);
}

InFlight* RequestsInFlight::Find(RequestId id) const {
  const auto it = all_.find(id);
  return it == all_.end() ? nullptr : it->second.get();
}

InFlight* RequestsInFlight::FindOn(size_t runner, uint64_t number) const {
  const auto it = by_number_.find(number);
  return it == by_number_.end() || it->second->runner != runner ? nullptr : it->second;
}

std::vector<InFlight*> RequestsInFlight::AllOn(size_t runner) const {
  std::vector<InFlight*> found;
  for (const auto& [number, one] : by_number_) {
    if (one->runner == runner) found.push_back(one);
  }
  std::sort(found.begin(), found.end(), IsOlder());
  return found;
}

bool RequestsInFlight::IsUndrawn(const InFlight& one) const {
  const auto undrawn = undrawn_.find(one.request.tenant);
  return undrawn != undrawn_.end() && undrawn->second.contains(const_cast<InFlight*>(&one));
}

Status RequestsInFlight::CheckOne(const InFlight& one) const {
  const auto wrong = [&one](const char* what) {
    return InternalError("request " + ToString(one.id) + " " + what);
  };
  const auto numbered = by_number_.find(one.number);
  const bool has_number = numbered != by_number_.end() && numbered->second == &one;
  auto* const key = const_cast<InFlight*>(&one);
  if (has_number != one.IsOnRunner()) return wrong("has a number and no runner, or the reverse");
  const bool waits = waiting_.contains(key);
  if (waits == one.IsOnRunner()) return wrong("is on a runner and waits, or does neither");
  if (!waits && line_.contains(key)) return wrong("is in line and does not wait");
  if (IsUndrawn(one) != one.request.output_tokens.empty()) {
    return wrong("has drawn, and its place may be taken; or the reverse");
  }
  for (const size_t runner : one.lacking) {
    if (std::find(one.refused.begin(), one.refused.end(), runner) != one.refused.end()) continue;
    return wrong("may go to a runner that cannot use its adapter");
  }
  return OkStatus();
}

Status RequestsInFlight::CheckIntegrity(std::vector<int64_t>* num_on_runner) const {
  size_t num_undrawn = 0, num_undrawn_listed = 0, num_on_runners = 0;
  for (const auto& [id, one] : all_) {
    if (one->id != id) return InternalError("a request has another id than it came with");
    RETURN_IF_ERROR(CheckOne(*one));
    num_undrawn += one->request.output_tokens.empty() ? 1 : 0;
    if (!one->IsOnRunner()) continue;
    ++num_on_runners;
    if (one->runner >= num_on_runner->size()) return InternalError("a request's runner is none");
    ++(*num_on_runner)[one->runner];
  }
  for (const auto& [tenant, undrawn] : undrawn_) {
    if (undrawn.empty()) return InternalError("tenant " + tenant + " is kept without requests");
    num_undrawn_listed += undrawn.size();
  }
  // Each of those in flight is where it belongs; nothing else is there.
  if (by_number_.size() != num_on_runners || waiting_.size() != all_.size() - num_on_runners ||
      num_undrawn_listed != num_undrawn) {
    return InternalError("a request that has ended is still in a list");
  }
  for (InFlight* const one : line_) {
    if (!waiting_.contains(one)) return InternalError("the line holds a request that has ended");
  }
  if (static_cast<size_t>(places_.num_taken()) != all_.size()) {
    return InternalError(std::to_string(places_.num_taken()) + " places are taken by " +
                         std::to_string(all_.size()) + " requests");
  }
  return OkStatus();
}

}  // namespace graft
