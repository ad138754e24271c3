// Says who is in the engine's steps without having drawn, and who was evicted, whenever either
// changes. Costs nothing where nobody listens. Engine thread only.
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

  // Before a step with these sequences (null: ended) begins, or none does. Tells at once who is
  // new.
  void BeforeStep(std::span<Sequence* const> planned, std::vector<RequestId> evicted);
  // Once the last step's events are delivered: who has only left did so by one of them, mostly.
  void AfterDelivery();

 private:
  void Tell();

  Listener listener_;
  std::vector<RequestId> undrawn_;  // in the step
  std::vector<RequestId> told_;
  std::vector<RequestId> evicted_;  // not told yet
};

}  // namespace graft
