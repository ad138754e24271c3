#include "engine/step_teller.h"

#include <algorithm>

namespace graft {

void StepTeller::BeforeStep(std::span<Sequence* const> planned, std::vector<RequestId> evicted) {
  if (!has_listener()) return;
  undrawn_.clear();
  for (const Sequence* const one : planned) {
    if (one != nullptr && !one->has_drawn) undrawn_.push_back(one->id);
  }
  std::sort(undrawn_.begin(), undrawn_.end());
  evicted_.insert(evicted_.end(), evicted.begin(), evicted.end());
  const bool has_new = !std::includes(told_.begin(), told_.end(), undrawn_.begin(), undrawn_.end());
  if (has_new || !evicted_.empty()) Tell();
}

void StepTeller::AfterDelivery() {
  if (has_listener() && undrawn_ != told_) Tell();
}

void StepTeller::Tell() {
  listener_({.undrawn = undrawn_, .evicted = evicted_});
  told_ = undrawn_;
  evicted_.clear();
}

}  // namespace graft
