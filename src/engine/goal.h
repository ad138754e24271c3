// Goal: what a server plans its steps for. Plain data.
#pragma once

#include <cstdint>

namespace graft {

enum class Goal : uint8_t {
  kLatency,     // short gaps between the tokens of a stream
  kThroughput,  // an early end of all requests: prompts run in steps as large as pay (StepSize)
};

constexpr const char* GoalName(Goal goal) {
  return goal == Goal::kThroughput ? "throughput" : "latency";
}

}  // namespace graft
