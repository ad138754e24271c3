#include "tensor/stream_timer.h"

namespace graft {

StreamTimer::Scope::Scope(StreamTimer* timer, int64_t* total_ns)
    : timer_(total_ns == nullptr ? nullptr : timer), total_ns_(total_ns) {
  if (timer_ != nullptr) begin_ = timer_->Mark();
}

StreamTimer::Scope::~Scope() {
  if (timer_ != nullptr) timer_->spans_.push_back({begin_, timer_->Mark(), total_ns_});
}

void StreamTimer::Start() {
  spans_.clear();
  num_used_ = 0;
}

}  // namespace graft
