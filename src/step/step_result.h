// Waist 2, upwards: what one step drew. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"

namespace graft {

struct LogprobEntry {
  int32_t token = -1;
  float logprob = 0.0f;
};

struct DrawnToken {
  int32_t token = -1;    // -1 if none was drawn
  float logprob = 0.0f;  // of `token`, before temperature and penalties
  std::vector<LogprobEntry> top_logprobs;
};

// What came of one PlannedSequence, same index.
struct SequenceResult : DrawnToken {
  // What was drawn after each draft that was right: draft i is the token drawn before further[i].
  std::vector<DrawnToken> further;
  // The logits held NaN or Inf: nothing was drawn, the engine fails this request alone.
  bool not_finite = false;
  // Its mask could not be had within the step (MaskSource): nothing was drawn, and its last row is
  // to be computed again.
  bool left_out = false;
  // If asked for: entry i is about the prompt token after row i, of the rows that are no virtual
  // tokens (none after the prompt's last).
  std::vector<LogprobEntry> prompt_logprobs;
  std::vector<std::vector<LogprobEntry>> prompt_top_logprobs;
  std::vector<float> embedding;  // with the prompt's last row, if pooling is asked for
};

// Nanoseconds of this step by part, as the executor measured them.
struct StepTimes {
  int64_t gemm_ns = 0;
  int64_t lora_ns = 0;
  int64_t attention_ns = 0;
  int64_t sampling_ns = 0;
  int64_t total_ns = 0;
  // Between the end of the step before and the beginning of this one; 0: it was begun ahead.
  int64_t gap_ns = 0;
  // How long the device had nothing to do between the step before and this one; -1: the executor
  // has not measured that.
  int64_t idle_ns = -1;
  // How long other work had the device since the step before ended.
  int64_t others_ns = 0;
};

struct StepResult {
  uint64_t step_id = 0;
  // Not OK: the step came to nothing, for a lack of memory. Nothing was drawn, what its rows left
  // in their pages means nothing, and the next step is as good as any.
  Status status;
  std::vector<SequenceResult> sequences;
  int32_t num_bridged_layers = 0;  // see StepPlan::bridges
  StepTimes times;
};

}  // namespace graft
