#include "base/work_crew.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "base/unwanted_work.h"

namespace graft {
namespace {

// More would wait for memory, not for cores.
constexpr int kCoresMax = 32;
// How soon a wait that has become long is seen, at best.
constexpr int64_t kLookEveryNs = 1'000'000;

}  // namespace

// While it lives, a thread reads or waits: a link of the crew's list, so that none takes memory.
// Made and destroyed under the lock; null: of no crew. No two of one thread at once.
class WorkCrew::LongWait {
 public:
  explicit LongWait(WorkCrew* crew) : crew_(crew) {
    if (crew_ == nullptr) return;
    begin_ns_ = SteadyClock::Get().NowNs();
    before_ = std::exchange(crew_->last_wait_, this);
    (before_ == nullptr ? crew_->first_wait_ : before_->after_) = this;
  }
  ~LongWait() {
    if (crew_ == nullptr) return;
    (before_ == nullptr ? crew_->first_wait_ : before_->after_) = after_;
    (after_ == nullptr ? crew_->last_wait_ : after_->before_) = before_;
  }
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;

  // How many began until then: `first` and those after it, which are in this order.
  static int CountUntil(const LongWait* first, int64_t ns) {
    int count = 0;
    for (; first != nullptr && first->begin_ns_ <= ns; first = first->after_) ++count;
    return count;
  }

 private:
  WorkCrew* const crew_;
  int64_t begin_ns_ = 0;
  LongWait* before_ = nullptr;
  LongWait* after_ = nullptr;
};

WorkCrew::WorkCrew(int num_cores, int64_t long_wait_ns)
    : num_cores_(num_cores), long_wait_ns_(long_wait_ns) {
  CHECK_GT(num_cores, 0);
}

WorkCrew::~WorkCrew() {
  {
    const std::lock_guard lock(mutex_);
    CHECK(open_.empty()) << "a batch outlives its crew";
    stopping_ = true;
    work_came_.notify_all();
  }
  for (std::thread& helper : helpers_) helper.join();
}

WorkCrew::Presence::Presence(WorkCrew* crew) : crew_(crew) {
  if (crew_ == nullptr) return;
  const std::lock_guard lock(crew_->mutex_);
  ++crew_->num_present_;
}

WorkCrew::Presence::~Presence() {
  if (crew_ == nullptr) return;
  const std::lock_guard lock(crew_->mutex_);
  --crew_->num_present_;
  if (!crew_->open_.empty()) crew_->work_came_.notify_one();
}

// Under the lock. Where the system gives no further thread there are fewer helpers.
void WorkCrew::StartHelpers() {
  if (has_started_) return;
  has_started_ = true;
  const int num_helpers = 2 * std::min(num_cores_ - 1, kCoresMax);
  try {
    for (int i = 0; i < num_helpers; ++i) helpers_.emplace_back([this] { Help(); });
  } catch (const std::system_error& error) {
    LOG_WARN("{} of {} threads help to read adapters: {}", helpers_.size(), num_helpers,
             error.what());
  }
}

// Under the lock: threads that take a core. One that hands in batches has one, present or not.
int WorkCrew::NumBusy() const {
  const int num_threads = std::max(num_present_, 1) + num_helping_;
  if (num_threads < num_cores_) return num_threads;
  const int64_t since_ns = SteadyClock::Get().NowNs() - long_wait_ns_;
  return num_threads - LongWait::CountUntil(first_wait_, since_ns);
}

// Under the lock: null where there is none that a helper may take part in.
WorkCrew::Batch* WorkCrew::NextToHelp() {
  if (open_.empty() || NumBusy() >= num_cores_) return nullptr;
  const bool may_read = num_helping_to_read_ < static_cast<int>(helpers_.size()) / 2;
  const auto next = std::find_if(open_.begin(), open_.end(), [may_read](const Batch* batch) {
    return may_read || batch->pieces_ == Pieces::kCompute;
  });
  if (next == open_.end()) return nullptr;
  open_.splice(open_.end(), open_, next);
  return open_.back();
}

// A core also becomes free because a wait begins or becomes long, which wakes no helper. So as long
// as there are pieces, one of the helpers that have none looks from time to time.
void WorkCrew::WaitForWork(std::unique_lock<std::mutex>& lock) {
  if (open_.empty()) return work_came_.wait(lock);
  ++num_looking_;
  work_came_.wait_for(lock, std::chrono::nanoseconds(std::max(long_wait_ns_, kLookEveryNs)));
  --num_looking_;
}

void WorkCrew::Help() {
  NameThread("adapter helper");
  std::unique_lock lock(mutex_);
  for (;;) {
    Batch* batch = nullptr;
    while (!stopping_ && (batch = NextToHelp()) == nullptr) WaitForWork(lock);
    if (stopping_) return;
    if (!open_.empty() && num_looking_ == 0) work_came_.notify_one();
    const int to_read = batch->pieces_ == Pieces::kCompute ? 0 : 1;
    ++num_helping_;
    num_helping_to_read_ += to_read;
    batch->RunNext(lock);
    num_helping_to_read_ -= to_read;
    --num_helping_;
  }
}

WorkCrew::Batch::Batch(WorkCrew* crew, int64_t num_pieces, std::function<void(int64_t)> piece,
                       Pieces pieces)
    : crew_(crew),
      pieces_(pieces),
      is_unwanted_(WatchedWork::flag()),
      mutex_(crew == nullptr ? own_mutex_ : crew->mutex_),
      num_pieces_(num_pieces),
      piece_(std::move(piece)),
      is_done_(static_cast<size_t>(num_pieces)) {
  if (crew_ == nullptr || num_pieces == 0) return;
  const std::lock_guard lock(mutex_);
  crew_->StartHelpers();
  crew_->open_.push_back(this);
  const int64_t num_free = std::max(crew_->num_cores_ - crew_->NumBusy(), 1);  // one looks again
  for (int64_t i = 0; i < std::min(num_pieces, num_free); ++i) crew_->work_came_.notify_one();
}

WorkCrew::Batch::~Batch() {
  std::unique_lock lock(mutex_);
  Close();
  while (num_running_ > 0) WaitForChange(lock);
}

// Under the lock: no further piece begins.
void WorkCrew::Batch::Close() {
  next_ = num_pieces_;
  if (crew_ != nullptr) std::erase(crew_->open_, this);
}

// The lock is held at both ends, not between. A helper that ends the last piece may find the batch
// gone once it gives up the lock.
void WorkCrew::Batch::RunNext(std::unique_lock<std::mutex>& lock) {
  const int64_t piece_idx = next_++;
  if (!has_more()) Close();
  ++num_running_;
  {
    const LongWait reads(pieces_ == Pieces::kRead ? crew_ : nullptr);
    RunPiece(piece_idx, lock);
  }
  --num_running_;
  is_done_[static_cast<size_t>(piece_idx)] = true;
  if (out_of_memory_ != nullptr) Close();
  changed_.notify_all();
}

void WorkCrew::Batch::RunPiece(int64_t piece_idx, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  std::exception_ptr out_of_memory;
  try {
    const WatchedWork watched(is_unwanted_);
    piece_(piece_idx);
  } catch (const std::bad_alloc&) {
    out_of_memory = std::current_exception();
  }
  lock.lock();
  if (out_of_memory != nullptr) out_of_memory_ = out_of_memory;
}

void WorkCrew::Batch::WaitForChange(std::unique_lock<std::mutex>& lock) {
  const LongWait waits(crew_);
  changed_.wait(lock);
}

void WorkCrew::Batch::Wait() {
  std::unique_lock lock(mutex_);
  while (has_more()) RunNext(lock);
  while (num_running_ > 0) WaitForChange(lock);
  if (out_of_memory_ != nullptr) std::rethrow_exception(out_of_memory_);
}

void WorkCrew::Batch::WaitFor(int64_t piece_idx) {
  std::unique_lock lock(mutex_);
  while (!is_done_[static_cast<size_t>(piece_idx)] && out_of_memory_ == nullptr) {
    if (has_more()) {
      RunNext(lock);
    } else {
      WaitForChange(lock);
    }
  }
  if (out_of_memory_ != nullptr) std::rethrow_exception(out_of_memory_);
}

}  // namespace graft
