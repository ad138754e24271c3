// EtcdCluster: frontends and runners around an etcd among faults, by a virtual clock. The code
// under test takes leases, elects a leader, mirrors the registry and changes it. Everything is
// drawn from one seed, and the same seed gives the same run. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "hostile/etcd_member.h"
#include "hostile/hostile_cluster.h"

namespace graft {

class EtcdCluster {
 public:
  explicit EtcdCluster(const HostileOptions& options);
  // Until all is well again and all processes agree; once.
  HostileResult Run();

 private:
  struct Machine {
    std::string id;
    bool is_frontend = false;
    EtcdWay way;
    std::unique_ptr<EtcdMember> member;  // null: none runs
  };
  // By name: content and version.
  using Registry = std::map<std::string, std::pair<std::string, int64_t>>;

  int64_t Draw(int64_t below) {
    return static_cast<int64_t>(random_.Below(static_cast<uint64_t>(below)));
  }
  Machine& Any() { return *machines_[static_cast<size_t>(Draw(std::ssize(machines_)))]; }
  void Start(Machine& machine);
  void Kill(Machine& machine);
  void OnChange(const std::string& by, const EtcdKeyValue& made);
  void OnView(const std::string& id, const ClusterView& view);
  void OnPut(const std::string& hash, int64_t begun_ns, const Status& status);
  Registry RegistryOfEtcd() const;
  void NoteRegistry();
  void CheckLeaders();
  void CheckRecords();
  void CheckEnd();
  bool IsForgiven() const;
  // In etcd_cluster_faults.cc.
  void Fault();
  void StopAny();
  void CutAny();
  void EndEtcd();
  void RestoreIfNeeded();
  void Heal();

  const HostileOptions options_;
  Random random_;
  EventLoop loop_;
  Findings findings_;
  SimEtcd etcd_;
  std::vector<std::unique_ptr<Machine>> machines_;
  int64_t num_starts_ = 0;  // of processes
  bool is_healed_ = false;
  std::string cluster_text_;  // of its own record
  // What the last one that died knew: it lies on its disk.
  std::map<std::string, std::string> on_disk_;
  // Every registry that etcd has had, by revision, in each of its lives: when it is set back it
  // begins another one.
  std::vector<std::map<int64_t, Registry>> lives_ = {{}};
  int64_t life_since_ns_ = 0;
  std::map<std::string, int> times_put_;  // by content, how often a version of it was made
};

}  // namespace graft
