#include "http/work_queue.h"

#include <algorithm>

#include "base/check.h"
#include "base/thread_name.h"

namespace graft {
namespace {

// The cost of a piece besides its bytes.
constexpr int64_t kPieceBytes = 4 << 10;
// Beyond this number, owners without waiting work are looked for and forgotten.
constexpr size_t kOwnersKept = 1024;

}  // namespace

WorkQueue::WorkQueue(int32_t num_threads) : num_threads_(num_threads) {
  CHECK_GE(num_threads, 1);
  for (int32_t i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Loop(); });
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    came_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void WorkQueue::Run(uint64_t owner, int64_t bytes, std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  if (ends_.size() > kOwnersKept) {
    std::erase_if(ends_, [this](const auto& entry) { return entry.second <= now_; });
  }
  int64_t& end = ends_[owner];
  end = std::max(end, now_) + bytes + kPieceBytes;
  Line& line = bytes > kLongBytes ? long_ : short_;
  line.emplace(std::pair(end, num_asked_++), std::move(work));
  came_.notify_one();
}

WorkQueue::Line* WorkQueue::NextLine() {
  const bool may_long = num_long_running_ < std::max(1, num_threads_ - 1);
  const bool has_long = may_long && !long_.empty();
  if (short_.empty()) return has_long ? &long_ : nullptr;
  return has_long && long_.begin()->first < short_.begin()->first ? &long_ : &short_;
}

void WorkQueue::Loop() {
  NameThread("http worker");
  std::unique_lock lock(mutex_);
  for (;;) {
    Line* line = nullptr;
    came_.wait(lock, [&] {
      line = NextLine();
      return line != nullptr || (stopping_ && short_.empty() && long_.empty());
    });
    if (line == nullptr) return;
    auto piece = line->extract(line->begin());
    const bool is_long = line == &long_;
    now_ = std::max(now_, piece.key().first);
    num_long_running_ += is_long ? 1 : 0;
    lock.unlock();
    piece.mapped()();
    piece = {};
    lock.lock();
    num_long_running_ -= is_long ? 1 : 0;
    if (is_long) came_.notify_all();  // the next long one may begin
  }
}

}  // namespace graft
