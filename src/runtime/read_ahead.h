// ReadAhead: after a start, reads listed adapters into the host's memory before a request asks for
// them, one after the other, on a thread that gets only time that no other wants. It waits while
// requests' adapters are read, and ends once the store has no free room or all are there. What
// cannot be read is left to the request that asks for it. Made and destroyed on the main thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "adapters/peft_backend.h"

namespace graft {

class ReadAhead {
 public:
  struct Folder {
    std::string path;
    std::string hash;  // "": it was never read
    std::string key;   // its name until the hash is known
  };
  // `is_busy`: whether requests' adapters are read. `on_read` is told of what was never read. Both
  // are called on the thread. Everything is borrowed.
  ReadAhead(PeftBackend& backend, std::vector<Folder> folders, std::function<bool()> is_busy,
            PeftBackend::OnRead on_read);
  // Gives up the folder that is read: waits for one read of the system at most, or for the module
  // that is being converted.
  ~ReadAhead();
  // Any thread.
  bool is_done() const { return is_done_; }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

 private:
  void Run(const std::vector<Folder>& folders);
  bool WaitForQuiet();

  PeftBackend& backend_;
  const std::function<bool()> is_busy_;
  const PeftBackend::OnRead on_read_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  std::atomic<bool> stopping_{false};  // written under the lock
  std::atomic<bool> is_done_{false};
  std::thread thread_;
};

}  // namespace graft
