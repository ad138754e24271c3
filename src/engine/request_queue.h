// The way into the engine: submissions and cancels from any thread, taken in one go by the engine
// thread before each step. Bounds the requests in flight (waiting or running), and is where the
// engine thread sleeps when it has none. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/sequence.h"

namespace graft {

class RequestQueue {
 public:
  // A cancel comes after the submission it is about, or not at all.
  struct Batch {
    std::vector<std::unique_ptr<Sequence>> submitted;
    std::vector<RequestId> cancelled;
    bool cancel_all = false;  // whatever is in flight, `submitted` included
  };

  explicit RequestQueue(int32_t requests_max) : requests_max_(requests_max) {}

  // Any thread. kUnavailable once closed, kResourceExhausted with requests_max in flight.
  Status Push(std::unique_ptr<Sequence> sequence);
  void Cancel(RequestId id);
  void CancelAll();
  // No more submissions.
  void Close();
  // Close and CancelAll, and WaitForWork ends once all is done.
  void Stop();
  // Wakes the engine thread for events that come by other ways.
  void Wake();
  // Waits until nothing is in flight and the engine thread sleeps. False: the clock has reached
  // `until_ns` before (kNever: no limit).
  bool WaitUntilIdle(const Clock& clock, int64_t until_ns);

  // Engine thread. What came in since the last call.
  Batch Take();
  // Engine thread. The submissions alone, while a step runs whose sequences a cancel would take
  // away.
  std::vector<std::unique_ptr<Sequence>> TakeSubmitted();
  // Whether there are submissions to take.
  const std::atomic<bool>& has_submitted() const { return has_submitted_; }
  // Engine thread. `num_requests` of those taken are done.
  void Finished(int32_t num_requests);
  // Engine thread. Sleeps until something is there to Take; false: stopped and nothing is.
  bool WaitForWork();

 private:
  bool has_work() const {
    return !batch_.submitted.empty() || !batch_.cancelled.empty() || batch_.cancel_all || woken_;
  }

  const int32_t requests_max_;
  std::mutex mutex_;
  std::condition_variable work_came_;
  std::condition_variable idle_came_;
  Batch batch_;
  std::atomic<bool> has_submitted_{false};  // what batch_ says, for who does not take the lock
  int32_t num_in_flight_ = 0;
  bool woken_ = false;
  bool closed_ = false;
  bool stopped_ = false;
  bool asleep_ = false;
};

}  // namespace graft
