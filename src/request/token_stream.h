// The queue that carries one request's events from the engine thread to its one reader. Push never
// blocks: a request has at most tokens_max + 1 events. Thread-safe for one writer and one reader.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "request/token_event.h"

namespace graft {

class TokenStream {
 public:
  // Engine thread. Wakes the reader: calls `on_ready` if one is set, else the thread in Pop.
  void Push(TokenEvent&& event);

  // Reader. The next event, or nothing if none is there yet.
  std::optional<TokenEvent> TryPop();
  // Reader. Blocks until an event is there.
  TokenEvent Pop();
  // For the reader. `on_ready` runs on the engine thread after a Push to an empty queue, and at
  // once if events wait already. It must only post work elsewhere. An empty function removes it;
  // after that call returns, the old function neither runs nor will run.
  void SetReadyCallback(std::function<void()> on_ready);

 private:
  std::mutex mutex_;
  std::condition_variable not_empty_;
  std::deque<TokenEvent> events_;
  std::function<void()> on_ready_;
};

}  // namespace graft
