// StreamTimer: how long the parts of a stream's work take, as the device sees it: by events on a
// GPU, by the clock on the CPU, where work is done when its call returns. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/stream.h"

namespace graft {

class StreamTimer {
 public:
  explicit StreamTimer(const Stream& stream) : stream_(stream) {}
  ~StreamTimer();
  StreamTimer(const StreamTimer&) = delete;
  StreamTimer& operator=(const StreamTimer&) = delete;

  // Times what its scope puts on the stream; scopes nest. Without a timer or a total it does
  // nothing.
  class Scope {
   public:
    Scope(StreamTimer* timer, int64_t* total_ns);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StreamTimer* const timer_;
    int64_t* const total_ns_;
    int64_t begin_ = 0;  // nanoseconds, or the index of an event
  };

  // Forgets scopes that were not collected: those of a step that ended by an exception, where the
  // totals may be gone.
  void Start();

  // Waits for the stream and adds every scope's nanoseconds to its total.
  void Collect();

 private:
  struct Span {
    int64_t begin = 0;  // events
    int64_t end = 0;
    int64_t* total_ns = nullptr;
  };
  int64_t Mark();  // the time, or an event recorded now

  const Stream stream_;
  std::vector<void*> events_;  // cudaEvent_t, kept for the next Collect
  [[maybe_unused]] int64_t num_used_ = 0;
  std::vector<Span> spans_;
};

}  // namespace graft
