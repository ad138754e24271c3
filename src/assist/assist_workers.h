// AssistWorkers keeps the CPU assist's workers running, each on a thread or in a process. When a
// process dies, the thread that watches it does its work until a new process is there. So no stream
// waits for ever, and the answers are the same. Made and destroyed by one thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "assist/assist_exchange.h"
#include "base/metrics.h"
#include "tensor/shared_memory.h"

namespace graft {

// Worker processes: the program and its first arguments, and what they map. Their places count from
// the store.
struct AssistProcesses {
  std::vector<std::string> command;
  const SharedMemory* exchange = nullptr;
  const SharedMemory* store = nullptr;
};

class AssistWorkers {
 public:
  // As many as the exchange has. Without a command they are threads, each with kernels on
  // `worker_threads`. Everything is borrowed.
  AssistWorkers(AssistExchange& exchange, const AssistProcesses& processes, Metrics& metrics,
                int worker_threads = 1);
  // Stops the exchange: no job is posted any more.
  ~AssistWorkers();

  // The workers' processes, 0 for those that are being started. Any thread.
  std::vector<pid_t> processes() const;

 private:
  void KeepProcess(int32_t worker);
  pid_t Start(int32_t worker);
  // Returns when the process has ended.
  void WaitFor(int32_t worker, pid_t process);

  AssistExchange& exchange_;
  const std::vector<std::string> command_;
  const char* const rows_;
  int exchange_descriptor_ = -1;  // copies of our own, above those that a process gets them at
  int store_descriptor_ = -1;
  prometheus::Counter& restarts_;
  mutable std::mutex mutex_;  // guards processes_ and stopping_
  std::vector<pid_t> processes_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace graft
