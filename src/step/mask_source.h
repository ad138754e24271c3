// MaskSource (the lower waist, ARCHITECTURE.md): an executor asks the engine which tokens may be
// drawn next for a sequence that is bound to a grammar. They depend on the token before, which may
// be known only after a step's rows were launched. So the executor asks after the launch, and draws
// with the answer.
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
  // Fills `words` for the idx-th sequence of `plan`, which has_mask, with the tokens that may be
  // drawn, as NumMaskWords(vocab_size) words. For a plan that is `ahead` it is called only after
  // the step before was booked. False: the mask would take longer than a step may wait, or the row
  // belongs to no token any more. Then nothing is drawn for the sequence
  // (SequenceResult::left_out). Called on any thread, at the same time for different sequences.
  virtual bool FillMask(const StepPlan& plan, size_t idx, std::span<uint32_t> words) = 0;
};

}  // namespace graft
