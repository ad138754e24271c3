// Places that tenants share: where all are taken, who has few for its weight takes one of who has
// the most. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace graft {

class TenantPlaces {
 public:
  // The tenant takes a place, or gives one back.
  void Enter(const std::string& tenant);
  void Leave(const std::string& tenant);
  // Of one that has places.
  void SetWeight(const std::string& tenant, double weight);
  // Who has the most places for its weight, if it still has no fewer than the taker when one of
  // them is the taker's; null: nobody, or it has no more than `kept` places.
  const std::string* GiverTo(const std::string& taker, double weight, int32_t kept) const;
  int32_t num_taken() const { return num_taken_; }

 private:
  struct Tenant {
    double weight = 1.0;
    int32_t num_taken = 0;
  };
  std::unordered_map<std::string, Tenant> tenants_;  // those with places
  int32_t num_taken_ = 0;
};

}  // namespace graft
