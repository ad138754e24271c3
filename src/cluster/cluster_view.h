// ClusterView: what one process knows of its cluster, as of one revision of etcd. It is a value: a
// reader's copy never changes. It can be written to a file and read back, for times when etcd
// cannot be reached. ClusterMirror builds it on one thread; any thread reads it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "cluster/cluster_records.h"
#include "etcd/etcd_watch.h"

namespace graft {

// What changes seldom, and may be much.
struct RegistryView {
  std::map<std::string, AdapterVersion> adapters;  // by name
  std::map<std::string, TenantRecord> tenants;     // by name
  std::map<std::string, Json> keys;                // a keys file's entries, by digest
  bool requires_key = false;                       // the cluster has keys, or has had some
  bool says_so = false;                            // by a record, which outlives the keys
};

// What the leader has decided.
struct LeaderView {
  std::string leader_id;  // "": none
  // Requests a minute that each frontend may let through, by its id and the key's digest.
  std::map<std::string, std::map<std::string, double>> slices;
  std::optional<ScaleHint> hint;
};

struct ClusterView {
  int64_t revision = 0;
  std::map<std::string, RunnerRecord> runners;      // by id
  std::map<std::string, FrontendRecord> frontends;  // by id
  std::map<std::string, std::string> leaving;  // runners' ids, and the lease that each has there
  std::shared_ptr<const RegistryView> registry =
      std::make_shared<RegistryView>();  // shared by views
  LeaderView leader;
  Status away;  // why etcd is not heard; OK: it is

  // As ApiKeys takes it.
  Json KeysList() const;
  // Addresses of all that may have contents of adapters: runners, and frontends with a store.
  std::vector<std::string> ContentHolders() const;
};

// The records behind a view: applies what EtcdWatch tells, and makes views of it. A record that
// cannot be read leaves the former one of its key in force, with a warning. One thread.
class ClusterMirror {
 public:
  // Where etcd was set back, runners and frontends that it does not know stay until LetGo: they
  // have not had the time to come back.
  void SetAll(const std::vector<EtcdKeyValue>& items, int64_t revision, bool set_back);
  void Apply(const std::vector<EtcdChange>& changes, int64_t revision);
  // Those that have stayed since the last SetAll without being heard. True: there were some.
  bool LetGo();

  // With `away` as given.
  std::shared_ptr<const ClusterView> View(const Status& away) const;
  // The cluster's own record, "" if none is known.
  std::string ClusterText() const;
  // Hashes of all that names lead to, and of their versions that are kept.
  std::set<std::string> Contents() const;
  // What ClusterStore::Restore writes back: all records but those of living processes.
  std::map<std::string, std::string> LastingRecords() const;

  // The file's text, and what it says; kDataLoss for what is no such file.
  std::string Encode() const;
  static Result<ClusterMirror> Decode(const std::string& text);

 private:
  void Put(const std::string& key, const std::string& text);
  void Erase(const std::string& key);
  void EraseLeaders(const std::string& key);

  int64_t revision_ = 0;
  std::map<std::string, std::string> records_;   // as they are in etcd, by key
  std::map<std::string, std::string> contents_;  // hashes, by the key of a name or a version
  std::set<std::string> unheard_;                // keys that LetGo erases
  std::map<std::string, RunnerRecord> runners_;
  std::map<std::string, FrontendRecord> frontends_;
  std::map<std::string, std::string> leaving_;
  std::shared_ptr<const RegistryView> registry_ = std::make_shared<RegistryView>();
  std::shared_ptr<RegistryView> next_registry_;  // while changes are applied to it
  LeaderView leader_;
};

// Reads what ClusterWatcher wrote: a mirror's Encode. kNotFound.
Result<ClusterMirror> ReadViewFile(const std::string& path);

}  // namespace graft
