// EtcdLease: keys that stand for a living process. A thread of its own takes a lease, renews it
// three times within its span, and takes another when etcd has forgotten it. The lease counts as
// lost, by the monotonic clock, when etcd may have ended it, whether or not etcd can be asked.
// Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "etcd/etcd_client.h"

namespace graft {

class EtcdLease {
 public:
  // Writes what shall stand under the lease; runs on the lease's thread for each new one, again
  // until it succeeds.
  using Attach = std::function<Status(int64_t lease_id)>;

  // `client` must outlive it. etcd has a least span, see EtcdClient::GrantLease.
  EtcdLease(EtcdClient& client, int64_t ttl_s, Attach attach);
  // Ends the lease if etcd answers, and its keys with it; else they go when its time is over.
  ~EtcdLease();

  // 0 while there is none.
  int64_t id() const;
  // The lease cannot have ended yet.
  bool held() const;
  // And what shall stand under it does.
  bool stands() const;
  // The last failure since it was last renewed and attached; OK: all is well.
  Status status() const;

 private:
  void Run();
  // One renewal, or a new lease.
  Status Turn();
  Status TakeNew();

  EtcdClient& client_;
  EtcdWorld& world_;
  const int64_t ttl_s_;
  const Attach attach_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  int64_t id_ = 0;
  int64_t span_ns_ = 0;
  int64_t good_until_ns_ = 0;
  bool attached_ = false;
  Status status_;
  std::unique_ptr<EtcdWorld::Thread> thread_;
};

}  // namespace graft
