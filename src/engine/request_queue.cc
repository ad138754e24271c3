#include "engine/request_queue.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace graft {
namespace {

// As often a clock is looked at that need not go as the machine's does.
constexpr int64_t kLookNs = 20'000'000;

}  // namespace

Status RequestQueue::Push(std::unique_ptr<Sequence> sequence) {
  std::lock_guard lock(mutex_);
  if (closed_) return UnavailableError("the server is shutting down; send the request elsewhere");
  const bool has_place =
      places_.num_taken() < requests_max_ || TakePlace(sequence->tenant, sequence->tenant_weight);
  if (!has_place) {
    return ResourceExhaustedError("the queue is full (" + std::to_string(requests_max_) +
                                  " requests); try again later");
  }
  places_.Enter(sequence->tenant, clock_.NowNs());
  places_.SetWeight(sequence->tenant, sequence->tenant_weight);
  batch_.submitted.push_back(std::move(sequence));
  has_submitted_ = true;
  work_came_.notify_one();
  return OkStatus();
}

// The giver has some that wait if more are in flight than can run.
bool RequestQueue::TakePlace(const std::string& tenant, double weight) {
  const std::string* const giver = places_.GiverTo(tenant, weight, running_max_);
  if (giver == nullptr) return false;
  batch_.displaced.push_back(*giver);
  places_.Give(batch_.displaced.back());
  return true;
}

void RequestQueue::Cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  if (places_.num_taken() == 0) return;
  batch_.cancelled.push_back(id);
  work_came_.notify_one();
}

void RequestQueue::CancelAll() {
  std::lock_guard lock(mutex_);
  batch_.cancel_all = true;
  work_came_.notify_one();
}

void RequestQueue::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

void RequestQueue::Stop() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  stopped_ = true;
  batch_.cancel_all = true;
  work_came_.notify_one();
}

void RequestQueue::Wake() {
  std::lock_guard lock(mutex_);
  woken_ = true;
  work_came_.notify_one();
}

bool RequestQueue::WaitUntilIdle(const Clock& clock, int64_t until_ns) {
  std::unique_lock lock(mutex_);
  const auto idle = [this] { return asleep_ && places_.num_taken() == 0 && !has_work(); };
  while (!idle()) {
    const int64_t left_ns = until_ns - clock.NowNs();
    if (left_ns <= 0) return false;
    idle_came_.wait_for(lock, std::chrono::nanoseconds(std::min(left_ns, kLookNs)));
  }
  return true;
}

RequestQueue::Batch RequestQueue::Take() {
  std::lock_guard lock(mutex_);
  woken_ = false;
  has_submitted_ = false;
  return std::exchange(batch_, {});
}

std::vector<std::unique_ptr<Sequence>> RequestQueue::TakeSubmitted() {
  std::lock_guard lock(mutex_);
  has_submitted_ = false;
  return std::exchange(batch_.submitted, {});
}

void RequestQueue::Finished(std::span<const std::string> tenants) {
  std::lock_guard lock(mutex_);
  const int64_t now_ns = clock_.NowNs();
  for (const std::string& tenant : tenants) places_.Leave(tenant, now_ns);
}

void RequestQueue::KeptPlace(const std::string& tenant) {
  std::lock_guard lock(mutex_);
  places_.Enter(tenant, clock_.NowNs());
}

int32_t RequestQueue::RetryAfterS(const std::string& tenant, double weight) {
  std::lock_guard lock(mutex_);
  return places_.RetryAfterS(tenant, weight, clock_.NowNs());
}

bool RequestQueue::WaitForWork() {
  std::unique_lock lock(mutex_);
  asleep_ = true;
  idle_came_.notify_all();
  work_came_.wait(lock, [this] { return has_work() || stopped_; });
  if (!has_work()) return false;  // stays "asleep", so that WaitUntilIdle returns
  asleep_ = false;
  return true;
}

}  // namespace graft
