// ThreadPool: fork-join over a fixed set of threads, on which the CPU kernels run. The caller takes
// part as worker 0. When it is done, it also does the parts of workers that have not begun, because
// on a busy machine the operating system may let a worker wait for milliseconds. Workers spin
// briefly between calls (a step has hundreds of them), then sleep. One caller at a time. If memory
// runs out in a call, the call ends on all workers, and the caller gets OutOfMemory. Nothing else
// may be thrown in a call.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace graft {

class ThreadPool {
 public:
  // num_threads counts the caller: 1 runs everything on the calling thread.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Calls function(worker_idx) once for each worker_idx below num_threads and waits for all of
  // these calls, which must not wait for each other: one thread may make several.
  template <typename Function>
  void Run(const Function& function) {
    RunErased([](const void* context,
                 int worker_idx) { (*static_cast<const Function*>(context))(worker_idx); },
              &function);
  }

  // Calls function(begin, end) over [0, n) cut into one contiguous range per worker, each a
  // multiple of `grain` but the last. Ranges depend on n, grain and num_threads alone.
  template <typename Function>
  void ParallelFor(int64_t n, int64_t grain, const Function& function) {
    if (n <= 0) return;
    const int64_t num_grains = (n + grain - 1) / grain;
    if (num_threads_ == 1 || num_grains == 1) {
      function(int64_t{0}, n);
      return;
    }
    Run([&](int worker_idx) {
      const int64_t begin = num_grains * worker_idx / num_threads_ * grain;
      int64_t end = num_grains * (worker_idx + 1) / num_threads_ * grain;
      if (end > n) end = n;
      if (begin < end) function(begin, end);
    });
  }

 private:
  using Erased = void (*)(const void* context, int worker_idx);
  void RunErased(Erased function, const void* context);
  // The last generation of which this worker's part was taken; on a cache line of its own.
  struct alignas(64) Taken {
    std::atomic<uint64_t> generation{0};
  };
  bool Take(int worker_idx, uint64_t generation);
  void RunOne(int worker_idx);
  void WaitForOthers();
  void WorkerLoop(int worker_idx);

  const int num_threads_;
  std::vector<Taken> taken_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Erased function_ = nullptr;
  const void* context_ = nullptr;
  std::atomic<bool> stopping_{false};
  int num_sleeping_ = 0;
  // Raised once per Run; workers run the function when they see it move.
  std::atomic<uint64_t> generation_{0};
  std::atomic<int> num_running_{0};         // parts of others that are not done
  std::atomic<bool> out_of_memory_{false};  // in this Run
};

// Cores this process may use.
int NumCpus();

}  // namespace graft
