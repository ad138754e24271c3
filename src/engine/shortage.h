// Shortage: fairness when a request finds no pages, or no room for its adapter: which other
// requests of the plan may still get some. Further requests of its tenant get none, so that what
// becomes free is left for it. Other tenants may overtake it until they have been served as much as
// it asks for. Without that bound a flood of small requests could keep a large one from ever
// beginning. Engine thread only.
#pragma once

#include <algorithm>
#include <optional>

#include "engine/fair_line.h"

namespace graft {

// A tenant's place in virtual time, with its rows of the plan.
inline double ServedOf(const FairLine& line, const TenantLine& tenant) {
  line.Book();
  return tenant.served();
}

class Shortage {
 public:
  // `mark`: the member of a tenant that says that one of its requests lacks this.
  Shortage(FairLine& line, bool TenantLine::*mark) : line_(line), mark_(mark) {}

  // A plan begins. (FairLine::BeginPlan takes the tenants' marks away.)
  void Begin() { served_max_.reset(); }
  // This request of the tenant finds none.
  void Note(TenantLine& tenant, const Sequence& sequence) {
    tenant.*mark_ = true;
    const double served = ServedOf(line_, tenant) + sequence.num_tokens() / tenant.share.weight;
    served_max_ = std::min(served_max_.value_or(served), served);
  }
  // Whether the tenant's requests that come now get none.
  bool KeepsFrom(const TenantLine& tenant) const {
    if (tenant.*mark_ || !served_max_.has_value()) return tenant.*mark_;
    return ServedOf(line_, tenant) > *served_max_;
  }
  // Whether a request of this plan finds none.
  bool is_known() const { return served_max_.has_value(); }

 private:
  FairLine& line_;
  bool TenantLine::*const mark_;
  std::optional<double> served_max_;  // other tenants may overtake up to this place
};

}  // namespace graft
