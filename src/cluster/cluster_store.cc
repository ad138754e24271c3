#include "cluster/cluster_store.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "cluster/cluster_keys.h"
#include "cluster/cluster_records.h"
#include "etcd/etcd_patience.h"

namespace graft {
namespace {

constexpr int64_t kStoreNsPerSecond = 1'000'000'000;
// Lines of the audit log that one transaction takes away, beside what else is in it.
constexpr size_t kTrimmedAtOnce = 100;

std::string AuditText(const AuditLine& line) {
  return DumpJson({{"by", line.by},
                   {"change", line.change},
                   {"subject", line.subject},
                   {"tenant", line.tenant}});
}

// Sorted by time; two of one nanosecond differ in the rest.
EtcdOperation AuditPut(const AuditLine& line, int64_t unix_ns) {
  return EtcdOperation::Put(fmt::format("{}{:020}-{}", kAuditPrefix, unix_ns, RandomHex(1)),
                            AuditText(line));
}

void LogAudit(const AuditLine& line) {
  LOG_INFO("audit: {} of '{}' by {}{}", line.change, line.subject, line.by,
           line.tenant.empty() ? "" : " for tenant '" + line.tenant + "'");
}

Status CheckBase(const BaseModelId& own, const BaseModelId& clusters, const std::string& etcd) {
  const std::string how = HowBasesDiffer(own, clusters);
  if (how.empty()) return OkStatus();
  return FailedPreconditionError(
      etcd + " has a cluster of another base model ('" + clusters.name + "') than this one ('" +
      own.name + "'): " + how +
      "; start it with the cluster's model folder, or with an etcd of its own; `graft cluster "
      "base --model DIR` gives the cluster another model");
}

// kAborted: others changed it at the same time.
Status TryToJoinBase(ClusterStore& store, const BaseModelId& base) {
  ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                   store.Commit({.then = {EtcdOperation::Get(BaseKey())}}));
  BaseModelId known;
  int64_t mod_revision = 0;
  if (!outcome.found[0].empty()) {
    ASSIGN_OR_RETURN(known, DecodeBaseModel(outcome.found[0][0].value));
    mod_revision = outcome.found[0][0].mod_revision;
  }
  RETURN_IF_ERROR(CheckBase(base, known, store.client().name()));
  // A process without weights does not know their hash.
  const bool says_more = (known.text_hash.empty() && !base.text_hash.empty()) ||
                         (known.weights_hash.empty() && !base.weights_hash.empty());
  if (!says_more) return OkStatus();
  if (known.name.empty()) known.name = base.name;
  if (known.text_hash.empty()) known.text_hash = base.text_hash;
  if (known.weights_hash.empty()) known.weights_hash = base.weights_hash;
  ASSIGN_OR_RETURN(const EtcdOutcome put,
                   store.Commit({.compares = {EtcdCompare::ModRevision(BaseKey(), mod_revision)},
                                 .then = {EtcdOperation::Put(BaseKey(), EncodeRecord(known))}}));
  if (put.succeeded) return OkStatus();
  return Status(StatusCode::kAborted, "others keep changing the cluster's base model: try again");
}

}  // namespace

int64_t UnixTimeNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

ClusterStore::ClusterStore(EtcdClient& client, ClusterRecord cluster, std::string text,
                           UnixClock now)
    : client_(client), cluster_(std::move(cluster)), text_(std::move(text)), now_(std::move(now)) {}

Result<std::unique_ptr<ClusterStore>> ClusterStore::Open(EtcdClient& client, UnixClock now) {
  ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                   client.Commit({.then = {EtcdOperation::Get(ClusterKey())}}));
  if (outcome.found[0].empty()) {
    return FailedPreconditionError(
        client.name() +
        " has no cluster: `graft cluster init` makes a new one; if it had one, `graft cluster "
        "restore` writes back what a frontend last knew");
  }
  return FromRecord(client, outcome.found[0][0].value, std::move(now));
}

Result<std::unique_ptr<ClusterStore>> ClusterStore::FromRecord(EtcdClient& client,
                                                               const std::string& text,
                                                               UnixClock now) {
  ASSIGN_OR_RETURN(ClusterRecord cluster, DecodeClusterRecord(text));
  return std::unique_ptr<ClusterStore>(
      new ClusterStore(client, std::move(cluster), text, std::move(now)));
}

Result<ClusterRecord> ClusterStore::Init(EtcdClient& client, const std::string& base_name,
                                         const std::string& by, const UnixClock& now) {
  const int64_t unix_ns = now();
  const ClusterRecord cluster = {RandomHex(2), base_name, unix_ns / kStoreNsPerSecond};
  const AuditLine line = {by, "init", cluster.id, ""};
  ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                   client.Commit({.compares = {EtcdCompare::Absent(ClusterKey())},
                                  .then = {EtcdOperation::Put(ClusterKey(), EncodeRecord(cluster)),
                                           AuditPut(line, unix_ns)}}));
  if (!outcome.succeeded) {
    return AlreadyExistsError(client.name() + " has a cluster already: start its servers");
  }
  LogAudit(line);
  return cluster;
}

Status ClusterStore::Restore(EtcdClient& client, const std::map<std::string, std::string>& records,
                             const std::string& by, const UnixClock& now) {
  const auto cluster = records.find(ClusterKey());
  if (cluster == records.end()) {
    return InvalidArgumentError("the view knows no cluster: it was never connected to one");
  }
  ASSIGN_OR_RETURN(const ClusterRecord record, DecodeClusterRecord(cluster->second));
  const AuditLine line = {by, "restore", record.id, ""};
  const EtcdCompare absent = EtcdCompare::Absent(ClusterKey());
  EtcdTransaction transaction;
  const auto commit = [&]() -> Status {
    transaction.compares = {absent};
    ASSIGN_OR_RETURN(const EtcdOutcome outcome, client.Commit(transaction));
    transaction = {};
    if (outcome.succeeded) return OkStatus();
    return AlreadyExistsError(client.name() +
                              " has a cluster, which a view must not overwrite: nothing is lost");
  };
  for (const auto& [key, text] : records) {
    if (key == ClusterKey()) continue;
    transaction.then.push_back(EtcdOperation::Put(key, text));
    if (transaction.then.size() == kEtcdOperationsMax) RETURN_IF_ERROR(commit());
  }
  RETURN_IF_ERROR(commit());
  transaction.then = {EtcdOperation::Put(ClusterKey(), cluster->second), AuditPut(line, now())};
  RETURN_IF_ERROR(commit());
  LogAudit(line);
  return OkStatus();
}

EtcdCompare ClusterStore::Guard() const { return EtcdCompare::Value(ClusterKey(), text_); }

std::string ClusterStore::GuardFailure() const {
  return "it does not have cluster " + cluster_.id +
         " any more, so nothing that it says is followed and nothing is written to it; if it came "
         "back empty, `graft cluster restore` writes back what was last known";
}

Result<EtcdOutcome> ClusterStore::Commit(EtcdTransaction transaction) {
  transaction.compares.insert(transaction.compares.begin(), Guard());
  transaction.otherwise.push_back(EtcdOperation::Get(ClusterKey()));
  ASSIGN_OR_RETURN(EtcdOutcome outcome, client_.Commit(transaction));
  if (outcome.succeeded) return outcome;
  const std::vector<EtcdKeyValue>& cluster = outcome.found.back();
  if (cluster.empty() || cluster[0].value != text_) {
    return FailedPreconditionError(client_.name() + ": " + GuardFailure());
  }
  outcome.found.pop_back();
  return outcome;
}

Result<EtcdOutcome> ClusterStore::Change(EtcdTransaction transaction, const AuditLine& line) {
  const EtcdOperation put = AuditPut(line, now_());
  transaction.compares.push_back(EtcdCompare::Absent(put.key));
  transaction.then.push_back(put);
  Result<EtcdOutcome> outcome = Commit(std::move(transaction));
  if (outcome.status().code() == StatusCode::kDeadlineExceeded) {
    // The line's key is taken, if it is free: then the change cannot be made late, either.
    AuditLine undone = line;
    undone.change += " (broke off, not made)";
    const Result<EtcdOutcome> look =
        Commit({.compares = {EtcdCompare::Absent(put.key)},
                .then = {EtcdOperation::Put(put.key, AuditText(undone))},
                .otherwise = {EtcdOperation::Get(put.key)}});
    if (!look.ok()) return outcome.status();
    if (look->succeeded) {
      return UnavailableError(client_.name() + " broke off, and nothing was changed: try again");
    }
    outcome = EtcdOutcome{.succeeded = true, .revision = look->found[0][0].mod_revision};
  }
  if (outcome.ok() && outcome->succeeded) LogAudit(line);
  return outcome;
}

Result<std::vector<EtcdOperation>> ClusterStore::AuditTrims(size_t lines_max) {
  const auto keys_max = static_cast<int64_t>(lines_max + kTrimmedAtOnce);
  ASSIGN_OR_RETURN(const EtcdOutcome outcome,
                   Commit({.then = {EtcdOperation::GetKeys(std::string(kAuditPrefix), keys_max)}}));
  const std::vector<EtcdKeyValue>& lines = outcome.found[0];  // the oldest first
  std::vector<EtcdOperation> trims;
  for (size_t i = 0; i + lines_max < lines.size(); ++i) {
    trims.push_back(EtcdOperation::Delete(lines[i].key));
  }
  return trims;
}

Result<std::vector<AuditEntry>> ClusterStore::ReadAudit(size_t lines_max) {
  ASSIGN_OR_RETURN(const EtcdOutcome outcome, client_.ReadPrefix(std::string(kAuditPrefix)));
  const std::vector<EtcdKeyValue>& found = outcome.found[0];
  std::vector<AuditEntry> entries;
  for (size_t i = found.size() - std::min(found.size(), lines_max); i < found.size(); ++i) {
    const Result<Json> json = ParseJson(found[i].value);
    if (!json.ok() || !json->is_object()) continue;
    AuditEntry entry;
    entry.unix_ns = std::atoll(found[i].key.c_str() + kAuditPrefix.size());
    const auto read = [&](const char* field) {
      const auto it = json->find(field);
      return it != json->end() && it->is_string() ? it->get<std::string>() : std::string();
    };
    entry.line = {read("by"), read("change"), read("subject"), read("tenant")};
    entries.push_back(std::move(entry));
  }
  return entries;
}

Status JoinBase(ClusterStore& store, const BaseModelId& base) {
  return UntilAnswered(store.client(), kEtcdPatienceMs, [&] { return TryToJoinBase(store, base); });
}

Status ReplaceBase(ClusterStore& store, const BaseModelId& base, const std::string& by) {
  return store
      .Change({.then = {EtcdOperation::Put(BaseKey(), EncodeRecord(base))}},
              {by, "base", base.name, ""})
      .status();
}

}  // namespace graft
