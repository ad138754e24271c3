// TenantPlaces: places that tenants share. If all are taken, a tenant with few for its weight takes
// one from the tenant with the most, and a tenant that gets none is told when to come back. Not
// thread-safe; one clock.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "request/place_schedule.h"

namespace graft {

class TenantPlaces {
 public:
  explicit TenantPlaces(int32_t places_max) : places_max_(places_max) {}

  // The tenant takes a place, or is done with one.
  void Enter(const std::string& tenant, int64_t now_ns);
  void Leave(const std::string& tenant, int64_t now_ns);
  // The tenant gives up a place that another one takes at once.
  void Give(const std::string& tenant);
  // The tenant must have places.
  void SetWeight(const std::string& tenant, double weight);
  // The tenant with most places for its weight, if it still has no fewer for it than the taker once
  // one is the taker's. Null: there is none, or it has no more than `kept` places.
  const std::string* GiverTo(const std::string& taker, double weight, int32_t kept) const;
  // Seconds until a tenant that got no place, or has lost one, will find one; see PlaceSchedule.
  int32_t RetryAfterS(const std::string& tenant, double weight, int64_t now_ns);
  int32_t num_taken() const { return num_taken_; }

 private:
  struct Tenant {
    double weight = 1.0;
    int32_t num_taken = 0;
    PlaceSchedule::Turn turn;
  };

  void NoteScarcity(int64_t now_ns) { schedule_.SetScarce(2 * num_taken_ > places_max_, now_ns); }

  const int32_t places_max_;
  std::unordered_map<std::string, Tenant> tenants_;  // those with places
  int32_t num_taken_ = 0;
  PlaceSchedule schedule_;
  PlaceSchedule::Turn others_turn_;  // of all tenants without places
};

}  // namespace graft
