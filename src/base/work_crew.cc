#include "base/work_crew.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/thread_name.h"

namespace graft {
namespace {

// More would wait for memory, not for cores.
constexpr int kHelpersMax = 32;

}  // namespace

WorkCrew::WorkCrew(int num_cores) : num_cores_(num_cores) { CHECK_GT(num_cores, 0); }

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
  const int num_helpers = std::min(num_cores_ - 1, kHelpersMax);
  try {
    for (int i = 0; i < num_helpers; ++i) helpers_.emplace_back([this] { Help(); });
  } catch (const std::system_error& error) {
    LOG_WARN("{} of {} threads help to read adapters: {}", helpers_.size(), num_helpers,
             error.what());
  }
}

void WorkCrew::Help() {
  NameThread("adapter helper");
  std::unique_lock lock(mutex_);
  for (;;) {
    work_came_.wait(lock, [this] { return stopping_ || (!open_.empty() && MayHelp()); });
    if (stopping_) return;
    Batch& batch = *open_.front();
    open_.splice(open_.end(), open_, open_.begin());
    ++num_helping_;
    batch.RunNext(lock);
    --num_helping_;
  }
}

WorkCrew::Batch::Batch(WorkCrew* crew, int64_t num_pieces, std::function<void(int64_t)> piece)
    : crew_(crew),
      mutex_(crew == nullptr ? own_mutex_ : crew->mutex_),
      num_pieces_(num_pieces),
      piece_(std::move(piece)),
      is_done_(static_cast<size_t>(num_pieces)) {
  if (crew_ == nullptr || num_pieces == 0) return;
  const std::lock_guard lock(mutex_);
  crew_->StartHelpers();
  crew_->open_.push_back(this);
  if (num_pieces == 1) {
    crew_->work_came_.notify_one();
  } else {
    crew_->work_came_.notify_all();
  }
}

WorkCrew::Batch::~Batch() {
  std::unique_lock lock(mutex_);
  Close();
  changed_.wait(lock, [this] { return num_running_ == 0; });
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
  lock.unlock();
  std::exception_ptr out_of_memory;
  try {
    piece_(piece_idx);
  } catch (const std::bad_alloc&) {
    out_of_memory = std::current_exception();
  }
  lock.lock();
  --num_running_;
  is_done_[static_cast<size_t>(piece_idx)] = true;
  if (out_of_memory != nullptr) {
    out_of_memory_ = out_of_memory;
    Close();
  }
  changed_.notify_all();
}

void WorkCrew::Batch::Wait() {
  std::unique_lock lock(mutex_);
  while (has_more()) RunNext(lock);
  changed_.wait(lock, [this] { return num_running_ == 0; });
  if (out_of_memory_ != nullptr) std::rethrow_exception(out_of_memory_);
}

void WorkCrew::Batch::WaitFor(int64_t piece_idx) {
  std::unique_lock lock(mutex_);
  while (!is_done_[static_cast<size_t>(piece_idx)] && out_of_memory_ == nullptr) {
    if (has_more()) {
      RunNext(lock);
    } else {
      changed_.wait(lock);
    }
  }
  if (out_of_memory_ != nullptr) std::rethrow_exception(out_of_memory_);
}

}  // namespace graft
