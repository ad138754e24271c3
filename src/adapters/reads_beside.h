// ReadsBeside: how much memory is taken for folders that are read outside the line of fetches: for
// loads over HTTP, for pins, at the start and ahead. The line leaves it to them (PagedLoader).
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace graft {

class ReadsBeside {
 public:
  // While it lives, a folder is read, which takes so many bytes.
  class Reading {
   public:
    Reading(ReadsBeside& reads, int64_t bytes) : reads_(reads), bytes_(bytes) {
      reads_.Change(bytes_);
    }
    ~Reading() { reads_.Change(-bytes_); }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    ReadsBeside& reads_;
    const int64_t bytes_;
  };

  int64_t bytes() const { return bytes_; }
  // `on_change` is called on the threads that read, until Unwatch has returned.
  void Watch(const void* watcher, std::function<void()> on_change) {
    const std::lock_guard lock(mutex_);
    watchers_[watcher] = std::move(on_change);
  }
  void Unwatch(const void* watcher) {
    const std::lock_guard lock(mutex_);
    watchers_.erase(watcher);
  }

 private:
  void Change(int64_t bytes) {
    if (bytes == 0) return;
    bytes_ += bytes;
    const std::lock_guard lock(mutex_);
    for (const auto& [watcher, on_change] : watchers_) on_change();
  }

  std::atomic<int64_t> bytes_{0};
  std::mutex mutex_;
  std::map<const void*, std::function<void()>> watchers_;
};

}  // namespace graft
