#include "etcd/etcd_lease.h"

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace graft {
namespace {

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kLeaseRetryNs = kNsPerSecond / 4;

}  // namespace

EtcdLease::EtcdLease(EtcdClient& client, int64_t ttl_s, Attach attach)
    : client_(client),
      world_(client.world()),
      ttl_s_(ttl_s),
      attach_(std::move(attach)),
      thread_(world_.Start([this] { Run(); })) {}

EtcdLease::~EtcdLease() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.reset();
  if (!held()) return;
  const Status ended = client_.RevokeLease(id_);
  if (!ended.ok()) LOG_DEBUG("a lease ends by itself: {}", ended.message());
}

int64_t EtcdLease::id() const {
  std::lock_guard lock(mutex_);
  return id_;
}

bool EtcdLease::held() const {
  std::lock_guard lock(mutex_);
  return id_ != 0 && world_.NowNs() < good_until_ns_;
}

bool EtcdLease::stands() const {
  std::lock_guard lock(mutex_);
  return id_ != 0 && attached_ && world_.NowNs() < good_until_ns_;
}

Status EtcdLease::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

void EtcdLease::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    const Status status = Turn();
    lock.lock();
    status_ = status;
    const int64_t wait_ns =
        status.ok() ? span_ns_ / 3 : std::min(kLeaseRetryNs, ttl_s_ * kNsPerSecond / 3);
    world_.WaitFor(lock, wake_, wait_ns, [this] { return stopping_; });
  }
}

// The span counts from before the call: etcd's own count cannot have begun earlier.
Status EtcdLease::Turn() {
  const int64_t begin_ns = world_.NowNs();
  if (id_ != 0) {
    ASSIGN_OR_RETURN(const int64_t left_s, client_.RenewLease(id_));
    std::lock_guard lock(mutex_);
    if (left_s > 0) {
      good_until_ns_ = begin_ns + left_s * kNsPerSecond;
    } else {
      id_ = 0;
    }
  }
  if (id_ == 0) RETURN_IF_ERROR(TakeNew());
  if (attached_) return OkStatus();
  RETURN_IF_ERROR(attach_(id_));
  std::lock_guard lock(mutex_);
  attached_ = true;
  return OkStatus();
}

Status EtcdLease::TakeNew() {
  const int64_t begin_ns = world_.NowNs();
  ASSIGN_OR_RETURN(const EtcdLeaseGrant grant, client_.GrantLease(ttl_s_));
  std::lock_guard lock(mutex_);
  id_ = grant.id;
  span_ns_ = grant.ttl_s * kNsPerSecond;
  good_until_ns_ = begin_ns + span_ns_;
  attached_ = false;
  return OkStatus();
}

}  // namespace graft
