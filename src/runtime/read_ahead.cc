#include "runtime/read_ahead.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/thread_name.h"
#include "base/unwanted_work.h"

namespace graft {
namespace {

constexpr std::chrono::milliseconds kQuietPoll(20);

// Time that no other thread wants, of the processor and of the disk. Not SCHED_IDLE: a lock that
// the thread holds would be held for as long as others are busy. Where the system refuses, the
// thread is as others are.
void YieldToOthers() {
  constexpr int kLowest = 19;
  (void)setpriority(PRIO_PROCESS, 0, kLowest);  // of this thread alone, on Linux
#ifdef SYS_ioprio_set
  constexpr int kThisThread = 1;
  constexpr int kIdleClass = 3 << 13;
  (void)syscall(SYS_ioprio_set, kThisThread, 0, kIdleClass);
#endif
}

}  // namespace

ReadAhead::ReadAhead(PeftBackend& backend, std::vector<Folder> folders,
                     std::function<bool()> is_busy, PeftBackend::OnRead on_read)
    : backend_(backend), is_busy_(std::move(is_busy)), on_read_(std::move(on_read)) {
  thread_ = std::thread([this, folders = std::move(folders)] {
    NameThread("read ahead");
    YieldToOthers();
    const WatchedWork watched(stopping_);
    try {
      Run(folders);
    } catch (const std::bad_alloc&) {
      LOG_WARN("no further adapters are read ahead: the machine has no memory left for them");
    }
    is_done_ = true;
  });
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    stopped_.notify_one();
  }
  thread_.join();
}

// False: it is to end.
bool ReadAhead::WaitForQuiet() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const bool is_busy = is_busy_();
    lock.lock();
    if (!is_busy) return !stopping_;
    stopped_.wait_for(lock, kQuietPoll, [this] { return stopping_.load(); });
  }
  return false;
}

void ReadAhead::Run(const std::vector<Folder>& folders) {
  int32_t num_read = 0;
  for (const Folder& folder : folders) {
    if (!WaitForQuiet()) return;
    if (!folder.hash.empty() && backend_.Has(folder.hash)) continue;
    const Result<HostStore::Held> held = backend_.FetchAhead(folder.path, folder.hash);
    if (held.status().code() == StatusCode::kResourceExhausted) break;
    if (!held.ok()) continue;
    if (folder.hash.empty()) on_read_(folder.key, (*held)->facts);
    if (!held->is_in_store()) break;
    ++num_read;
  }
  LOG_INFO("{} of {} adapters were read ahead", num_read, folders.size());
}

}  // namespace graft
