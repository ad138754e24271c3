#include "keys/shared_places.h"

#include <algorithm>
#include <utility>

namespace graft {

PlacesLease::PlacesLease(SharedPlaces& places, std::string tenant, double weight,
                         std::function<void()> on_lost)
    : places_(places), tenant_(std::move(tenant)), weight_(weight), on_lost_(std::move(on_lost)) {}

PlacesLease::~PlacesLease() { (void)places_.Hold(this, 0); }

void SharedPlaces::SetMax(int64_t places_max) {
  const std::lock_guard lock(mutex_);
  places_max_ = places_max;
}

int64_t SharedPlaces::places_max() const {
  const std::lock_guard lock(mutex_);
  return places_max_;
}

int64_t SharedPlaces::num_taken() const {
  const std::lock_guard lock(mutex_);
  return places_.num_taken();
}

bool SharedPlaces::TakeRelease(int64_t num) {
  const std::lock_guard lock(mutex_);
  if (peak_ < num || places_.num_taken() != 0) return false;
  peak_ = 0;
  return true;
}

int32_t SharedPlaces::RetryAfterS(int64_t num) {
  const std::lock_guard lock(mutex_);
  return RetryAfterLocked(num, clock_.NowNs());
}

bool SharedPlaces::Hold(PlacesLease* lease, int64_t num) {
  const std::lock_guard lock(mutex_);
  if (lease->is_lost_) return num == 0;
  const int64_t more = num - lease->num_;
  if (more == 0) return true;
  const int64_t num_missing = places_.num_taken() + more - places_max_;
  if (more > 0 && num_missing > 0 && !TakeFromOthers(*lease, num, num_missing)) return false;
  const int64_t now_ns = clock_.NowNs();
  if (more > 0) {
    places_.Take(more, places_max_, now_ns);
  } else {
    places_.Free(-more, places_max_, now_ns);
  }
  SetHeld(lease, num);
  peak_ = std::max(peak_, places_.num_taken());
  return true;
}

int32_t SharedPlaces::Refuse(PlacesLease* lease, int64_t num) {
  const std::lock_guard lock(mutex_);
  const int64_t now_ns = clock_.NowNs();
  places_.Take(-lease->num_, places_max_, now_ns);
  SetHeld(lease, 0);
  return RetryAfterLocked(num, now_ns);
}

int32_t SharedPlaces::RetryAfterLocked(int64_t num, int64_t now_ns) {
  const int64_t num_missing = places_.num_taken() + num - places_max_;
  return num_missing > 0 ? places_.RetryAfterS(num_missing, now_ns) : 1;
}

// All that is missing, of the one tenant that has the most for its weight, or nothing.
bool SharedPlaces::TakeFromOthers(const PlacesLease& taker, int64_t num, int64_t num_missing) {
  const auto of_weight = [](const Tenant& one) {
    return static_cast<double>(one.num_held) / one.weight;
  };
  const auto most = std::max_element(
      tenants_.begin(), tenants_.end(),
      [&](const auto& a, const auto& b) { return of_weight(a.second) < of_weight(b.second); });
  if (most == tenants_.end() || most->first == taker.tenant_) return false;
  const auto own = tenants_.find(taker.tenant_);
  const int64_t held = (own == tenants_.end() ? 0 : own->second.num_held) - taker.num_ + num;
  const double then = static_cast<double>(held) / taker.weight_;
  Tenant& giver = most->second;
  auto left = static_cast<double>(giver.num_held);
  std::vector<PlacesLease*> given;
  int64_t num_given = 0;
  for (auto it = giver.leases.rbegin(); it != giver.leases.rend() && num_given < num_missing;
       ++it) {
    if (then >= left / giver.weight) return false;
    given.push_back(it->second);
    num_given += it->second->num_;
    left -= static_cast<double>(it->second->num_);
  }
  if (num_given < num_missing) return false;
  const int64_t now_ns = clock_.NowNs();
  for (PlacesLease* const lease : given) {
    places_.Take(-lease->num_, places_max_, now_ns);
    SetHeld(lease, 0);
    lease->is_lost_ = true;
    if (lease->on_lost_) lease->on_lost_();
  }
  return true;
}

void SharedPlaces::SetHeld(PlacesLease* lease, int64_t num) {
  if (num == lease->num_) return;
  Tenant& tenant = tenants_[lease->tenant_];
  tenant.weight = lease->weight_;
  tenant.num_held += num - std::exchange(lease->num_, num);
  if (num == 0) {
    tenant.leases.erase(lease->serial_);
    if (tenant.leases.empty()) tenants_.erase(lease->tenant_);
  } else if (!tenant.leases.contains(lease->serial_)) {
    lease->serial_ = ++num_leases_;
    tenant.leases.emplace(lease->serial_, lease);
  }
}

}  // namespace graft
