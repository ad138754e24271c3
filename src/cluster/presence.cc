#include "cluster/presence.h"

#include <utility>

#include "base/log.h"
#include "base/milliseconds.h"

namespace graft {
namespace {

constexpr int64_t kWriteLookMs = 20;

}  // namespace

Presence::Presence(ClusterStore& store, std::string key, std::string text, Options options)
    : store_(store),
      world_(store.client().world()),
      key_(std::move(key)),
      options_(options),
      text_(std::move(text)) {
  lease_ = std::make_unique<EtcdLease>(store_.client(), options_.ttl_s,
                                       [this](int64_t lease_id) { return Write(lease_id); });
  thread_ = world_.Start([this] { Run(); });
}

Presence::~Presence() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.reset();
}

void Presence::Set(std::string text) {
  {
    std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }
  wake_.notify_all();
}

Status Presence::Write(int64_t lease_id) {
  std::unique_lock lock(mutex_);
  const auto is_free = [this] { return !is_writing_ || stopping_; };
  while (!is_free()) world_.WaitFor(lock, wake_, MsToNs(kWriteLookMs), is_free);
  if (stopping_) return UnavailableError("the process ends");
  is_writing_ = true;
  const std::string text = text_;
  lock.unlock();
  const Status written =
      store_.Commit({.then = {EtcdOperation::Put(key_, text, lease_id)}}).status();
  lock.lock();
  is_writing_ = false;
  wake_.notify_all();
  if (written.ok()) written_ = text;
  return written;
}

void Presence::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const bool is_due = world_.WaitFor(lock, wake_, MsToNs(options_.interval_ms),
                                       [this] { return stopping_ || text_ != written_; });
    if (stopping_) return;
    if (!is_due) continue;
    lock.unlock();
    // The lease's own thread writes the first time, and again under every new lease.
    const int64_t lease_id = lease_->held() ? lease_->id() : 0;
    if (lease_id != 0) {
      const Status written = Write(lease_id);
      if (!written.ok()) LOG_DEBUG("{} is not told: {}", key_, written.message());
    }
    lock.lock();
    world_.WaitFor(lock, wake_, MsToNs(options_.interval_ms), [this] { return stopping_; });
  }
}

}  // namespace graft
