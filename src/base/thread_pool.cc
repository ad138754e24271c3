#include "base/thread_pool.h"

#include <sched.h>

#include <new>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "base/thread_name.h"

namespace graft {
namespace {

// About 50 us of polling: longer than the serial gaps inside a step, too short to be noticed.
constexpr int kSpinsMax = 20000;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(num_threads), taken_(static_cast<size_t>(num_threads)) {
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
  uint64_t generation;
  {
    std::lock_guard lock(mutex_);
    // Parts of two calls would be mixed up, and both callers would wait for ever.
    CHECK(function_ == nullptr) << "two threads call one ThreadPool at once";
    function_ = function;
    context_ = context;
    num_running_.store(num_threads_ - 1, std::memory_order_relaxed);
    generation = generation_.fetch_add(1, std::memory_order_release) + 1;
    must_wake = num_sleeping_ > 0;
  }
  if (must_wake) wake_.notify_all();
  RunOne(0);
  for (int i = 1; i < num_threads_; ++i) {
    if (!Take(i, generation)) continue;
    RunOne(i);
    num_running_.fetch_sub(1, std::memory_order_relaxed);
  }
  WaitForOthers();
  {
    std::lock_guard lock(mutex_);
    function_ = nullptr;
  }
  if (out_of_memory_.exchange(false)) ThrowOutOfMemory("a worker found no memory");
}

// Each part of a generation is taken once. Until then the generation before stands there.
bool ThreadPool::Take(int worker_idx, uint64_t generation) {
  uint64_t before = generation - 1;
  return taken_[static_cast<size_t>(worker_idx)].generation.compare_exchange_strong(
      before, generation, std::memory_order_acq_rel);
}

void ThreadPool::WaitForOthers() {
  for (int spins = 0; spins < kSpinsMax; ++spins) {
    if (num_running_.load(std::memory_order_acquire) == 0) return;
    Pause();
  }
  // A worker may share our core when the machine is busy: let it finish.
  for (int left = num_running_.load(std::memory_order_acquire); left != 0;
       left = num_running_.load(std::memory_order_acquire)) {
    num_running_.wait(left, std::memory_order_acquire);
  }
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
  NameThread("kernel");
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
    // Later than the next, where the caller has done this worker's parts meanwhile.
    seen = generation_.load(std::memory_order_acquire);
    if (stopping_) return;
    if (!Take(worker_idx, seen)) continue;
    RunOne(worker_idx);
    if (num_running_.fetch_sub(1, std::memory_order_release) == 1) num_running_.notify_one();
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
