// Presence: a record that stands in etcd while its process lives: a runner's or a frontend's. What
// it says is written at most every `interval_ms`, the newest alone. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "base/status.h"
#include "cluster/cluster_store.h"
#include "etcd/etcd_lease.h"

namespace graft {

class Presence {
 public:
  struct Options {
    int64_t ttl_s = 5;
    int64_t interval_ms = 500;
  };
  // `store` must outlive it. `text` is a record of cluster_records.h.
  Presence(ClusterStore& store, std::string key, std::string text, Options options);
  // The record goes.
  ~Presence();

  // Never waits.
  void Set(std::string text);
  int64_t lease_id() const { return lease_->id(); }
  // True while no process can have been told that this record's owner is gone.
  bool stands() const { return lease_->stands(); }

 private:
  Status Write(int64_t lease_id);
  void Run();

  ClusterStore& store_;
  EtcdWorld& world_;
  const std::string key_;
  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::string text_;
  std::string written_;
  bool is_writing_ = false;  // one at a time: an older text never follows a newer one
  std::unique_ptr<EtcdLease> lease_;
  std::unique_ptr<EtcdWorld::Thread> thread_;
};

}  // namespace graft
