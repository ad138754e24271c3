// The connections that wait for a request, the longest-waiting first: when there are as many
// connections as there may be, the first of these makes room for a newcomer. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace graft {

class ConnectionIo;

class IdleConnections {
 public:
  // From now on the connection waits. The ticket takes it off the list again.
  uint64_t Add(std::weak_ptr<ConnectionIo> connection) {
    std::lock_guard lock(mutex_);
    waiting_.emplace(++last_ticket_, std::move(connection));
    return last_ticket_;
  }
  // Nothing happens if it was taken.
  void Remove(uint64_t ticket) {
    std::lock_guard lock(mutex_);
    waiting_.erase(ticket);
  }
  // The one that has waited longest, off the list; null if none waits.
  std::shared_ptr<ConnectionIo> TakeLongest() {
    std::lock_guard lock(mutex_);
    while (!waiting_.empty()) {
      std::shared_ptr<ConnectionIo> connection = waiting_.begin()->second.lock();
      waiting_.erase(waiting_.begin());
      if (connection != nullptr) return connection;
    }
    return nullptr;
  }

 private:
  std::mutex mutex_;
  uint64_t last_ticket_ = 0;
  std::map<uint64_t, std::weak_ptr<ConnectionIo>> waiting_;
};

}  // namespace graft
