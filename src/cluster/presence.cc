#include "cluster/presence.h"

#include <chrono>
#include <utility>

#include "base/log.h"

namespace graft {

Presence::Presence(ClusterStore& store, std::string key, std::string text, Options options)
    : store_(store), key_(std::move(key)), options_(options), text_(std::move(text)) {
  lease_ = std::make_unique<EtcdLease>(store_.client(), options_.ttl_s,
                                       [this](int64_t lease_id) { return Write(lease_id); });
  thread_ = std::thread([this] { Run(); });
}

Presence::~Presence() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Presence::Set(std::string text) {
  {
    std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }
  wake_.notify_all();
}

Status Presence::Write(int64_t lease_id) {
  std::lock_guard write_lock(write_mutex_);
  std::string text;
  {
    std::lock_guard lock(mutex_);
    text = text_;
  }
  RETURN_IF_ERROR(store_.Commit({.then = {EtcdOperation::Put(key_, text, lease_id)}}).status());
  std::lock_guard lock(mutex_);
  written_ = std::move(text);
  return OkStatus();
}

void Presence::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait(lock, [this] { return stopping_ || text_ != written_; });
    if (stopping_) return;
    lock.unlock();
    // The lease's own thread writes the first time, and again under every new lease.
    const int64_t lease_id = lease_->held() ? lease_->id() : 0;
    if (lease_id != 0) {
      const Status written = Write(lease_id);
      if (!written.ok()) LOG_DEBUG("{} is not told: {}", key_, written.message());
    }
    lock.lock();
    wake_.wait_for(lock, std::chrono::milliseconds(options_.interval_ms),
                   [this] { return stopping_; });
  }
}

}  // namespace graft
