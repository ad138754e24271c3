// Threads that work for the answers' grammars beside the engine's steps. Tenants take turns, and
// none has all threads. Any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/turn_queue.h"

namespace graft {

class GrammarThreads {
 public:
  using Job = std::function<void()>;

  // `threads_of_one`: at most, for one tenant.
  GrammarThreads(int num_threads, int threads_of_one);
  ~GrammarThreads() { Stop(); }
  GrammarThreads(const GrammarThreads&) = delete;
  GrammarThreads& operator=(const GrammarThreads&) = delete;

  // Does it in its tenant's turn; the threads begin with the first. After Stop it is dropped.
  void Post(const std::string& tenant, Job job);
  // Waits for the jobs that run, and drops the others.
  void Stop();

 private:
  void Work();
  bool MayWork(const std::string& tenant) const;

  const int num_threads_;
  const int threads_of_one_;
  std::mutex mutex_;
  std::condition_variable work_came_;
  TurnQueue<std::string, Job> queue_;       // by tenant
  std::map<std::string, int> num_working_;  // threads, by tenant; none is 0
  std::vector<std::thread> threads_;
  bool stops_ = false;
};

}  // namespace graft
