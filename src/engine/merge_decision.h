// When a step runs on the weights that an adapter was merged into: whenever all rows of the step
// are of that adapter. Another adapter is merged instead once it had so many steps in a row for
// itself and no request of anything else is there. Merging costs as much as the low-rank path costs
// in some number of steps: waiting for as many loses at most as much again. Engine thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace graft {

class MergeDecision {
 public:
  // 0: never.
  explicit MergeDecision(int32_t after_steps) : after_steps_(after_steps) {}

  struct Answer {
    bool merged = false;  // the step runs on merged weights,
    bool merges = false;  // into which its adapter is merged before
  };
  // Once per step. `hash`: of the adapter of all rows; "" of a step of several, or with base rows.
  // `is_alone`: whether all requests are of it, those that wait too; asked before merging only.
  Answer Decide(const std::string& hash, const std::function<bool()>& is_alone);
  // A step that was to merge came to nothing: what the merged weights are is not known.
  void Forget() { merged_.clear(); }

 private:
  const int32_t after_steps_;
  std::string merged_;     // the content, which a slot may have been taken from meanwhile
  std::string candidate_;  // had the last num_steps_ steps for itself
  int32_t num_steps_ = 0;
};

}  // namespace graft
