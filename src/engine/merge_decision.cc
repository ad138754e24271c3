#include "engine/merge_decision.h"

namespace graft {

MergeDecision::Answer MergeDecision::Decide(const std::string& hash,
                                            const std::function<bool()>& is_alone) {
  if (after_steps_ == 0) return {};
  if (hash != candidate_) {
    candidate_ = hash;
    num_steps_ = 0;
  }
  if (hash.empty()) return {};
  if (hash == merged_) return {.merged = true};
  if (num_steps_ < after_steps_) {
    ++num_steps_;
    return {};
  }
  if (!is_alone()) return {};
  merged_ = hash;
  return {.merged = true, .merges = true};
}

}  // namespace graft
