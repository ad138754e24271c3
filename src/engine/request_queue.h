// RequestQueue: submissions and cancels from any thread, which the engine thread takes all at once
// before each step. It bounds the requests in flight (waiting or running). If all places are taken,
// a tenant with few for its weight takes one from the tenant with the most, which loses its newest
// waiting request. The engine thread sleeps here when it has no work. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/sequence.h"
#include "request/tenant_places.h"

namespace graft {

class RequestQueue {
 public:
  // A cancel comes after the submission it is about, or not at all.
  struct Batch {
    std::vector<std::unique_ptr<Sequence>> submitted;
    std::vector<RequestId> cancelled;
    bool cancel_all = false;  // whatever is in flight, `submitted` included
    // Tenants of which a request that waits is to be given up, each once for every place taken.
    // Where there is none, see KeptPlace.
    std::vector<std::string> displaced;
  };

  // So many at most run at once; those beyond wait.
  RequestQueue(int32_t requests_max, int32_t running_max, const Clock& clock)
      : requests_max_(requests_max),
        running_max_(running_max),
        clock_(clock),
        places_(requests_max) {}

  // Any thread. kUnavailable once closed, kResourceExhausted with requests_max in flight and no
  // place to take.
  Status Push(std::unique_ptr<Sequence> sequence);
  // Any thread. See Generator.
  int32_t RetryAfterS(const std::string& tenant, double weight);
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
  // Engine thread. The submissions alone, while a step runs that cancels would take sequences out
  // of.
  std::vector<std::unique_ptr<Sequence>> TakeSubmitted();
  // Whether there are submissions to take.
  const std::atomic<bool>& has_submitted() const { return has_submitted_; }
  // Engine thread. Requests of these tenants are done, one each.
  void Finished(std::span<const std::string> tenants);
  // Engine thread. None of the tenant's could be given up any more: it keeps its place, and there
  // is one more in flight than there should be.
  void KeptPlace(const std::string& tenant);
  // Engine thread. Sleeps until something is there to Take; false: stopped and nothing is.
  bool WaitForWork();

 private:
  bool has_work() const {
    return !batch_.submitted.empty() || !batch_.displaced.empty() || !batch_.cancelled.empty() ||
           batch_.cancel_all || woken_;
  }

  bool TakePlace(const std::string& tenant, double weight);

  const int32_t requests_max_;
  const int32_t running_max_;
  const Clock& clock_;
  std::mutex mutex_;
  std::condition_variable work_came_;
  std::condition_variable idle_came_;
  Batch batch_;
  std::atomic<bool> has_submitted_{false};  // what batch_ says, to be read without the lock
  TenantPlaces places_;                     // of the requests in flight
  bool woken_ = false;
  bool closed_ = false;
  bool stopped_ = false;
  bool asleep_ = false;
};

}  // namespace graft
