#include "request/tenant_places.h"

#include <algorithm>

#include "base/check.h"

namespace graft {

void TenantPlaces::Enter(const std::string& tenant) {
  ++tenants_[tenant].num_taken;
  ++num_taken_;
}

void TenantPlaces::Leave(const std::string& tenant) {
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

}  // namespace graft
