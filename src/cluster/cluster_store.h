// ClusterStore changes a cluster's records. A change takes effect only while etcd has this
// cluster's own record, so an etcd that came back empty, or belongs to another cluster, takes none.
// Every change writes a line to the audit log in the same transaction, and one to the process's
// log. Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cluster/cluster_records.h"
#include "etcd/etcd_client.h"
#include "rpc/protocol.h"

namespace graft {

struct AuditLine {
  std::string by;      // a frontend, an operator at a terminal, the leader
  std::string change;  // "load", "unload", "roll back", ...
  std::string subject;
  std::string tenant;  // that asked for the change; "": none
};

struct AuditEntry {
  int64_t unix_ns = 0;
  AuditLine line;
};

// Nanoseconds since 1970-01-01.
using UnixClock = std::function<int64_t()>;
int64_t UnixTimeNs();

class ClusterStore {
 public:
  // `now` is the time that changes and audit lines have; any thread asks it.

  // The cluster that etcd has. kFailedPrecondition, saying how to make or restore one, if none.
  static Result<std::unique_ptr<ClusterStore>> Open(EtcdClient& client, UnixClock now = UnixTimeNs);
  // Makes one in an etcd that has none; kAlreadyExists. Its id is drawn.
  static Result<ClusterRecord> Init(EtcdClient& client, const std::string& base_name,
                                    const std::string& by, const UnixClock& now = UnixTimeNs);
  // Writes the records of a view (see ClusterView::Records) into an etcd that has no cluster;
  // kAlreadyExists. The cluster's own record comes last: half of it is none.
  static Status Restore(EtcdClient& client, const std::map<std::string, std::string>& records,
                        const std::string& by, const UnixClock& now = UnixTimeNs);
  // As Open would have made it, while etcd cannot be asked: `text` is the record's.
  static Result<std::unique_ptr<ClusterStore>> FromRecord(EtcdClient& client,
                                                          const std::string& text,
                                                          UnixClock now = UnixTimeNs);

  const ClusterRecord& cluster() const { return cluster_; }
  // Holds while etcd is this cluster's, and what is said where it does not.
  EtcdCompare Guard() const;
  std::string GuardFailure() const;

  // EtcdClient::Commit under the guard. kFailedPrecondition: it is not this cluster's etcd.
  Result<EtcdOutcome> Commit(EtcdTransaction transaction);
  // The same with a line in the audit log. Whether it was made is found out by that line where the
  // connection broke meanwhile.
  Result<EtcdOutcome> Change(EtcdTransaction transaction, const AuditLine& line);

  // The newest last, `lines_max` at most.
  Result<std::vector<AuditEntry>> ReadAudit(size_t lines_max);
  // What takes the oldest lines away where there are more than `lines_max`: of very many a part.
  Result<std::vector<EtcdOperation>> AuditTrims(size_t lines_max);

  EtcdClient& client() { return client_; }

 private:
  ClusterStore(EtcdClient& client, ClusterRecord cluster, std::string text, UnixClock now);

  EtcdClient& client_;
  const ClusterRecord cluster_;
  const std::string text_;  // of the record in etcd, byte for byte
  const UnixClock now_;
};

// The one base model of a cluster. The first process records which model it has, and all others
// must have the same. kFailedPrecondition, with what to start instead: the cluster has another
// model. Other failures are etcd's, once it has not answered for kEtcdPatienceMs. Any thread;
// blocks.
Status JoinBase(ClusterStore& store, const BaseModelId& base);
// The cluster is this model's from now on; those that serve it as it was go on until they end.
Status ReplaceBase(ClusterStore& store, const BaseModelId& base, const std::string& by);

}  // namespace graft
