#include "grammar/grammar_threads.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/thread_name.h"

namespace graft {

GrammarThreads::GrammarThreads(int num_threads, int threads_of_one)
    : num_threads_(num_threads), threads_of_one_(threads_of_one) {
  CHECK(num_threads > 0 && threads_of_one > 0);
}

void GrammarThreads::Post(const std::string& tenant, Job job) {
  std::lock_guard lock(mutex_);
  if (stops_) return;
  queue_.Push(tenant, std::move(job));
  if (threads_.empty()) {
    for (int i = 0; i < num_threads_; ++i) threads_.emplace_back([this] { Work(); });
  }
  work_came_.notify_one();
}

void GrammarThreads::Stop() {
  std::vector<std::thread> threads;
  TurnQueue<std::string, Job> dropped;  // without the lock: what it holds may post again
  {
    std::lock_guard lock(mutex_);
    stops_ = true;
    std::swap(threads, threads_);
    std::swap(dropped, queue_);
  }
  work_came_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

// Under the lock.
bool GrammarThreads::MayWork(const std::string& tenant) const {
  const auto found = num_working_.find(tenant);
  return found == num_working_.end() || found->second < threads_of_one_;
}

void GrammarThreads::Work() {
  NameThread("grammar");
  std::unique_lock lock(mutex_);
  for (;;) {
    std::string tenant;
    std::optional<Job> job;
    work_came_.wait(lock, [&] {
      if (stops_) return true;
      job = queue_.TakeNext([&](const std::string& party) {
        tenant = party;
        return MayWork(party);
      });
      return job.has_value();
    });
    if (stops_) return;
    ++num_working_[tenant];
    lock.unlock();
    (*job)();
    job.reset();
    lock.lock();
    if (--num_working_[tenant] == 0) num_working_.erase(tenant);
    work_came_.notify_one();  // the tenant may have another thread now
  }
}

}  // namespace graft
