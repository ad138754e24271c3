// SharedPlaces: places, or bytes of memory, that the requests of all tenants share. While there are
// enough, each tenant takes what it needs. Otherwise a tenant that would hold less for its weight
// than the tenant with the most takes places from that tenant: its newest leases are lost, and the
// requests behind them are told. So no tenant's stalled uploads, unread answers or open connections
// keep others out. Thread-safe; a lease belongs to one request.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "keys/metered_places.h"

namespace graft {

class PlacesLease;

class SharedPlaces {
 public:
  SharedPlaces(int64_t places_max, const Clock& clock) : clock_(clock), places_max_(places_max) {}
  SharedPlaces(const SharedPlaces&) = delete;
  SharedPlaces& operator=(const SharedPlaces&) = delete;

  void SetMax(int64_t places_max);
  int64_t places_max() const;
  int64_t num_taken() const;

  // Whether `num` or more were taken at once since the last time this was true, and none are now:
  // memory that they were may be handed back to the system.
  bool TakeRelease(int64_t num);

  // Seconds until so many are free for one that holds none.
  int32_t RetryAfterS(int64_t num);

 private:
  friend class PlacesLease;
  struct Tenant {
    double weight = 1.0;
    int64_t num_held = 0;
    std::map<uint64_t, PlacesLease*> leases;  // with places, the newest last
  };

  bool Hold(PlacesLease* lease, int64_t num);
  int32_t Refuse(PlacesLease* lease, int64_t num);
  // These want mutex_ held.
  bool TakeFromOthers(const PlacesLease& taker, int64_t num, int64_t num_missing);
  void SetHeld(PlacesLease* lease, int64_t num);
  int32_t RetryAfterLocked(int64_t num, int64_t now_ns);

  const Clock& clock_;
  mutable std::mutex mutex_;
  int64_t places_max_;
  int64_t peak_ = 0;
  uint64_t num_leases_ = 0;
  MeteredPlaces places_;
  std::unordered_map<std::string, Tenant> tenants_;  // those with places
};

// What one request holds of them, given back when it goes.
class PlacesLease {
 public:
  // `on_lost` is called when the places go to another tenant, once at most, on whichever thread
  // takes them and under a lock: it must only post work elsewhere.
  PlacesLease(SharedPlaces& places, std::string tenant, double weight,
              std::function<void()> on_lost);
  ~PlacesLease();
  PlacesLease(const PlacesLease&) = delete;
  PlacesLease& operator=(const PlacesLease&) = delete;

  // Holds so many from now on, more or fewer than before. False: there are too few, and it holds
  // what it held; or it has lost them.
  bool Hold(int64_t num) { return places_.Hold(this, num); }
  // Gives up what it holds, which was too little and says nothing of the pace; seconds until there
  // are `num` for it.
  int32_t Refuse(int64_t num) { return places_.Refuse(this, num); }
  // Any thread.
  bool is_lost() const { return is_lost_; }

 private:
  friend class SharedPlaces;

  SharedPlaces& places_;
  const std::string tenant_;
  const double weight_;
  const std::function<void()> on_lost_;
  std::atomic<bool> is_lost_{false};
  // Under the lock of places_.
  uint64_t serial_ = 0;
  int64_t num_ = 0;
};

}  // namespace graft
