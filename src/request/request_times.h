// Waist 1, beside TokenEvent: when what happened to a request in an engine, for traces. Plain data;
// times are the engine's clock's, 0 where something never happened.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "request/token_event.h"

namespace graft {

struct RequestTimes {
  std::string traceparent;  // of the span that the request belongs to
  std::string log_id;
  std::string adapter_hash;   // "": the base model
  int64_t arrival_ns = 0;     // in this engine
  int64_t load_begin_ns = 0;  // of its adapter's last load that ended after the request came
  int64_t load_end_ns = 0;
  int64_t first_step_ns = 0;   // when the first step with it began
  int64_t first_token_ns = 0;  // that was drawn in this engine
  int64_t end_ns = 0;
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // of the prompt, found in the prefix cache
  int32_t output_tokens = 0;  // drawn in this engine
  int32_t preemptions = 0;
  FinishReason finish_reason = FinishReason::kNone;
  Status status;
};

// Takes the times of a request that has ended; on the engine's thread, so it must not wait.
using RequestTimesListener = std::function<void(RequestTimes)>;

}  // namespace graft
