// Leader: elects one of the processes that stand for election, for work that only one may do. The
// leader's place is a key under its lease. Every write of the leader has the condition that this
// key is still the one that it was elected by. So a leader that was stopped and comes back writes
// nothing, and steps down. A thread of its own; thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "cluster/cluster_store.h"
#include "cluster/cluster_view.h"
#include "etcd/etcd_client.h"
#include "etcd/etcd_lease.h"

namespace graft {

class Leader {
 public:
  struct Options {
    std::string id;         // of this candidate
    int64_t ttl_s = 2;      // a dead one's place is free after at most this and etcd's own delay
    int64_t turn_ms = 500;  // between two duties, and between two looks at a taken place
  };
  // What is to be written now; runs on the leader's thread, at each of its turns. What it writes
  // under the lease goes with the place.
  using Duty = std::function<std::vector<EtcdOperation>(int64_t lease_id)>;

  // `store` must outlive it.
  Leader(ClusterStore& store, Options options, Duty duty);
  // Gives the place up if etcd answers.
  ~Leader();

  // Elected, and the place cannot have gone to another yet.
  bool leads() const;
  // Terms that it has begun so far.
  int num_terms() const;

 private:
  void Run();
  void Campaign();
  void Work();
  void StepDown(const std::string& why);

  ClusterStore& store_;
  EtcdWorld& world_;
  const Options options_;
  const Duty duty_;
  EtcdLease lease_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  int64_t elected_at_ = 0;  // the place's create revision; 0: not elected
  int64_t lease_id_ = 0;    // that it was elected under
  int num_terms_ = 0;
  std::unique_ptr<EtcdWorld::Thread> thread_;
};

// What a leader decides, as functions of its view: how much of each key's budget each frontend may
// spend.

// The part of each budget that each frontend may spend, by frontend and budget. A budget is a key's
// (by its digest) or a tenant's, in requests or tokens a minute. The parts of a budget add up to
// it. Half of it is split evenly, so that a frontend without requests so far can answer at once.
// The rest is split by how much each frontend was asked for.
std::map<std::string, std::map<std::string, double>> LendSlices(const ClusterView& view);

// By budget, what each frontend may let through while no leader lends: equal parts.
std::map<std::string, double> EvenSlice(const ClusterView& view);

// By budget, what this frontend may spend now: its part of what the leader lends. Parts are equal
// instead while etcd cannot be heard, when the leader's lease has ended, or when the leader may
// think this frontend dead (its record does not `stand`) and lend its part to others.
std::map<std::string, double> SharesOf(const ClusterView& view, const std::string& frontend,
                                       bool stands);

// What the leader tells of the number of runners, where that differs from the view's, to be written
// under its lease.
std::vector<EtcdOperation> HintWrites(const ClusterView& view, const ScaleHint& hint,
                                      int64_t lease_id);

// What the leader is to write: slices that differ from the view's, under its lease, so that they
// end with its place; and for good, that the cluster asks for keys.
std::vector<EtcdOperation> LeaderWrites(const ClusterView& view, int64_t lease_id);

}  // namespace graft
