// Waist 2, sideways: what may be drawn next for a sequence that is bound to a grammar. It depends
// on the token before, which may be known only after a step's rows were launched: the executor asks
// once they are, and draws with the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/token_mask.h"
#include "step/step_plan.h"

namespace graft {

class MaskSource {
 public:
  virtual ~MaskSource() = default;
  // For the idx-th sequence of `plan`, which has_mask: the tokens that may be drawn, as
  // NumMaskWords(vocab_size) words. Of a plan that is `ahead` only after the step before it was
  // booked. False: that would take longer than a step may wait, or its row is of no token any more;
  // nothing is drawn for it (SequenceResult::left_out). Any thread, for sequences that differ at
  // the same time.
  virtual bool FillMask(const StepPlan& plan, size_t idx, std::span<uint32_t> words) = 0;
};

}  // namespace graft
