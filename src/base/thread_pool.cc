#include "base/thread_pool.h"

#include <sched.h>

#include <new>

#include "base/check.h"
#include "base/out_of_memory.h"

namespace graft {
namespace {

// About 50 us of polling: longer than the serial gaps inside a step, shorter than anyone would
// notice.
constexpr int kSpinsMax = 20000;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads) {
  CHECK_GE(num_threads, 1);
  threads_.reserve(num_threads - 1);
  for (int i = 1; i < num_threads; ++i) threads_.emplace_back([this, i] { WorkerLoop(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    generation_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::RunErased(Erased function, const void* context) {
  if (num_threads_ == 1) {
    function(context, 0);
    return;
  }
  bool must_wake;
  {
    std::lock_guard lock(mutex_);
    function_ = function;
    context_ = context;
    num_running_.store(num_threads_ - 1, std::memory_order_relaxed);
    generation_.fetch_add(1, std::memory_order_release);
    must_wake = num_sleeping_ > 0;
  }
  if (must_wake) wake_.notify_all();
  RunOne(0);
  for (int spins = 0; num_running_.load(std::memory_order_acquire) != 0; ++spins) {
    // A worker may share our core when the machine is busy: let it finish.
    if (spins < kSpinsMax) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
  if (out_of_memory_.exchange(false)) ThrowOutOfMemory("a worker found no memory");
}

// Others still work for the caller, which must not leave before them.
void ThreadPool::RunOne(int worker_idx) {
  try {
    function_(context_, worker_idx);
  } catch (const std::bad_alloc&) {
    out_of_memory_ = true;
  }
}

void ThreadPool::WorkerLoop(int worker_idx) {
  uint64_t seen = 0;
  while (true) {
    for (int spins = 0; spins < kSpinsMax && generation_.load(std::memory_order_acquire) == seen;
         ++spins) {
      Pause();
    }
    if (generation_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      ++num_sleeping_;
      wake_.wait(lock, [&] { return generation_.load(std::memory_order_relaxed) != seen; });
      --num_sleeping_;
    }
    ++seen;
    // The caller waits for every worker before it raises the generation again, but stopping_ may be
    // set.
    if (stopping_) return;
    RunOne(worker_idx);
    num_running_.fetch_sub(1, std::memory_order_release);
  }
}

int NumCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count > 0 ? count : 1;
}

}  // namespace graft
