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
  // NumMaskWords(vocab_size) words. For a plan that is `ahead` it is called only after the step
  // before was booked. False: the mask would take longer than a step may wait, or the row belongs
  // to no token any more; then nothing is drawn for it (SequenceResult::left_out). Called on any
  // thread, at the same time for different sequences.
  virtual bool FillMask(const StepPlan& plan, size_t idx, std::span<uint32_t> words) = 0;
};

}  // namespace graft
