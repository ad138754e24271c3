// LayerStep: what the layers of one step share beside what is made once (layer_context.h). Engine
// thread only.
#pragma once

#include <cstdint>

#include "layers/device_batch.h"
#include "layers/launch_plan.h"
#include "layers/learning_step.h"
#include "tensor/stream.h"
#include "tensor/stream_timer.h"

namespace graft {

// Nanoseconds. Every call that is given such a struct adds to it.
struct ForwardTimes {
  int64_t gemm_ns = 0;
  int64_t lora_ns = 0;
  int64_t attention_ns = 0;
  int64_t ranks_ns = 0;  // waiting for other ranks, and summing up what they have
  int64_t total_ns = 0;
};

struct LayerStep {
  const DeviceBatch batch;
  Stream& stream;
  StreamTimer* timer = nullptr;
  ForwardTimes* times = nullptr;
  LaunchPlan plan = {};          // of layers that the device computes alone
  LaunchPlan bridged_plan = {};  // where there is a bridge, of those that it takes
  bool bridged = false;          // in this layer batch.bridge computes for adapters under way
  const LearningStep* learning = nullptr;  // null: it serves, and nothing is kept

  const LaunchPlan& layer_plan() const { return bridged ? bridged_plan : plan; }
  int64_t num_rows() const { return static_cast<int64_t>(batch.tokens.size()); }
  int64_t* TotalOf(int64_t ForwardTimes::*part) const {
    return times == nullptr ? nullptr : &(times->*part);
  }
  StreamTimer::Scope Time(int64_t ForwardTimes::*part) const { return {timer, TotalOf(part)}; }
};

}  // namespace graft
