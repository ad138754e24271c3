// What a Transformer's own files share of one call: transformer.cc and transformer_ranks.cc.
#pragma once

#include "model/transformer.h"

namespace graft {

struct Transformer::Step {
  const DeviceBatch batch;
  Stream& stream;
  StreamTimer* timer;
  ForwardTimes* times;
  LaunchPlan plan;           // of layers that the device computes alone
  LaunchPlan assisted_plan;  // where there is an assist, of those that it takes
  bool assisted = false;     // in this layer batch.assist computes for adapters under way

  const LaunchPlan& layer_plan() const { return assisted ? assisted_plan : plan; }
  int64_t num_rows() const { return static_cast<int64_t>(batch.tokens.size()); }
  int64_t* TotalOf(int64_t ForwardTimes::*part) const {
    return times == nullptr ? nullptr : &(times->*part);
  }
  StreamTimer::Scope Time(int64_t ForwardTimes::*part) const { return {timer, TotalOf(part)}; }
};

struct Transformer::Projection {
  const void* x;
  const GemmWeight& weight;
  const Buffer& bias;  // may be empty
  float* y;
  bool accumulate;
  LayerProduct product;
  LoraModule first;
  std::span<const int64_t> slice_n;  // columns of each module in y
  void* activated = nullptr;         // see GemmArgs::activated
  Activation activation = Activation::kSilu;
  Target sum = {};  // of all ranks' y
};

}  // namespace graft
