#include "request/tenant_places.h"

#include <algorithm>

#include "base/check.h"

namespace graft {

void TenantPlaces::Enter(const std::string& tenant, int64_t now_ns) {
  ++tenants_[tenant].num_taken;
  ++num_taken_;
  NoteScarcity(now_ns);
}

void TenantPlaces::Leave(const std::string& tenant, int64_t now_ns) {
  const auto it = tenants_.find(tenant);
  CHECK(it != tenants_.end()) << "tenant '" << tenant << "' has nothing in flight";
  schedule_.Freed(1.0, &it->second.turn, now_ns);
  Give(tenant);
  NoteScarcity(now_ns);
}

void TenantPlaces::Give(const std::string& tenant) {
  const auto it = tenants_.find(tenant);
  CHECK(it != tenants_.end()) << "tenant '" << tenant << "' has nothing in flight";
  if (--it->second.num_taken == 0) tenants_.erase(it);
  --num_taken_;
}

void TenantPlaces::SetWeight(const std::string& tenant, double weight) {
  const auto it = tenants_.find(tenant);
  CHECK(it != tenants_.end()) << "tenant '" << tenant << "' has nothing in flight";
  it->second.weight = weight;
}

const std::string* TenantPlaces::GiverTo(const std::string& taker, double weight,
                                         int32_t kept) const {
  const auto giver = std::max_element(tenants_.begin(), tenants_.end(), [](auto& a, auto& b) {
    return a.second.num_taken * b.second.weight < b.second.num_taken * a.second.weight;
  });
  if (giver == tenants_.end() || giver->first == taker) return nullptr;
  const auto its_own = tenants_.find(taker);
  const int32_t then = (its_own == tenants_.end() ? 0 : its_own->second.num_taken) + 1;
  const Tenant& most = giver->second;
  const bool is_fair = then * most.weight <= (most.num_taken - 1) * weight;
  return is_fair && most.num_taken > kept ? &giver->first : nullptr;
}

int32_t TenantPlaces::RetryAfterS(const std::string& tenant, double weight, int64_t now_ns) {
  const auto it = tenants_.find(tenant);
  const bool has_places = it != tenants_.end();
  double weights = has_places ? 0.0 : weight;
  for (const auto& [name, one] : tenants_) weights += one.weight;
  PlaceSchedule::Turn* const turn = has_places ? &it->second.turn : &others_turn_;
  const double own = has_places ? it->second.weight : weight;
  return schedule_.RetryAfterS(1.0, own / weights, turn, now_ns);
}

}  // namespace graft
