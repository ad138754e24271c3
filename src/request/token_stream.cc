#include "request/token_stream.h"

#include <utility>

namespace graft {

// on_ready_ runs under the lock, so that SetReadyCallback({}) is a barrier for its reader.
void TokenStream::Push(TokenEvent&& event) {
  std::lock_guard lock(mutex_);
  const bool was_empty = events_.empty();
  events_.push_back(std::move(event));
  not_empty_.notify_one();
  if (was_empty && on_ready_) on_ready_();
}

std::optional<TokenEvent> TokenStream::TryPop() {
  std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  TokenEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

TokenEvent TokenStream::Pop() {
  std::unique_lock lock(mutex_);
  not_empty_.wait(lock, [&] { return !events_.empty(); });
  TokenEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void TokenStream::SetReadyCallback(std::function<void()> on_ready) {
  std::lock_guard lock(mutex_);
  on_ready_ = std::move(on_ready);
  if (on_ready_ && !events_.empty()) on_ready_();
}

}  // namespace graft
