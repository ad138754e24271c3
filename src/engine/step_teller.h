// Tells which requests are in the engine's steps without having drawn, and which were evicted,
// whenever either changes. Costs nothing without a listener. Engine thread only.
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "engine/sequence.h"
#include "request/step_news.h"

namespace graft {

class StepTeller {
 public:
  using Listener = std::function<void(const StepNews&)>;
  void SetListener(Listener listener) { listener_ = std::move(listener); }
  bool has_listener() const { return listener_ != nullptr; }

  // Before a step with these sequences (null: ended) begins, or none does. Tells newcomers at once.
  void BeforeStep(std::span<Sequence* const> planned, std::vector<RequestId> evicted);
  // Once the last step's events are delivered, which mostly tell of requests that have only left.
  void AfterDelivery();

 private:
  void Tell();

  Listener listener_;
  std::vector<RequestId> undrawn_;  // in the step
  std::vector<RequestId> told_;
  std::vector<RequestId> evicted_;  // not told yet
};

}  // namespace graft
