#include "hostile/sim_etcd.h"

#include <utility>

#include "cluster/cluster_keys.h"

namespace graft {
namespace {

constexpr int64_t kEtcdNsPerSecond = 1'000'000'000;
// etcd looks for leases that are over twice a second.
constexpr int64_t kEndsLateMaxNs = kEtcdNsPerSecond / 2;
constexpr uint64_t kLosesOneIn = 20;

std::vector<EtcdChange> ChangesBelow(const std::vector<EtcdChange>& changes,
                                     const std::string& prefix) {
  std::vector<EtcdChange> below;
  for (const EtcdChange& change : changes) {
    if (HasPrefix(change.item.key, prefix)) below.push_back(change);
  }
  return below;
}

}  // namespace

bool SimEtcd::Holds(const EtcdCompare& compare) const {
  if (defect_ == Defect::kIgnoresCompares) return true;
  const auto it = data_.items.find(compare.key);
  const bool is_there = it != data_.items.end();
  int64_t number = 0;
  switch (compare.target) {
    case EtcdCompare::Target::kValue:
      return is_there && it->second.value == compare.value;
    case EtcdCompare::Target::kCreateRevision:
      number = is_there ? it->second.create_revision : 0;
      break;
    case EtcdCompare::Target::kModRevision:
      number = is_there ? it->second.mod_revision : 0;
      break;
  }
  return compare.relation == EtcdCompare::Relation::kGreater ? number > compare.number
                                                             : number == compare.number;
}

void SimEtcd::Put(const std::string& by, const EtcdOperation& put) {
  EtcdKeyValue& item = data_.items[put.key];
  if (item.key.empty()) item.create_revision = data_.revision + 1;
  if (item.lease != 0) data_.leases[item.lease].keys.erase(put.key);
  item.key = put.key;
  item.value = put.value;
  item.mod_revision = data_.revision + 1;
  item.lease = put.lease;
  if (put.lease != 0) data_.leases[put.lease].keys.insert(put.key);
  made_.push_back({item, false});
  if (look_) look_(by, item);
}

void SimEtcd::Delete(const std::string& key) {
  const auto it = data_.items.find(key);
  if (it == data_.items.end()) return;
  const auto lease = data_.leases.find(it->second.lease);
  if (lease != data_.leases.end()) lease->second.keys.erase(key);
  data_.items.erase(it);
  EtcdChange change{{key}, true};
  change.item.mod_revision = data_.revision + 1;
  made_.push_back(std::move(change));
}

void SimEtcd::Do(const std::string& by, const EtcdOperation& operation, EtcdOutcome* outcome) {
  std::vector<EtcdKeyValue>& found = outcome->found.emplace_back();
  const bool is_prefix = operation.kind == EtcdOperation::Kind::kGetPrefix ||
                         operation.kind == EtcdOperation::Kind::kDeletePrefix;
  if (operation.kind == EtcdOperation::Kind::kPut) return Put(by, operation);
  std::vector<EtcdKeyValue> meant;
  const bool is_old = defect_ == Defect::kReadsOld && random_.Below(kLosesOneIn) == 0;
  const std::map<std::string, EtcdKeyValue>& items = is_old ? kept_.items : data_.items;
  for (auto it = items.lower_bound(operation.key); it != items.end(); ++it) {
    if (is_prefix ? !HasPrefix(it->first, operation.key) : it->first != operation.key) break;
    const bool is_cut = operation.keys_max > 0;
    if (is_cut && std::ssize(meant) == operation.keys_max) break;
    meant.push_back(it->second);
    if (is_cut) meant.back().value.clear();
  }
  const bool deletes = operation.kind == EtcdOperation::Kind::kDelete ||
                       operation.kind == EtcdOperation::Kind::kDeletePrefix;
  if (!deletes) {
    found = std::move(meant);
    return;
  }
  for (const EtcdKeyValue& item : meant) Delete(item.key);
}

EtcdOutcome SimEtcd::Commit(const std::string& by, const EtcdTransaction& transaction) {
  EtcdOutcome outcome;
  outcome.succeeded = true;
  for (const EtcdCompare& compare : transaction.compares) outcome.succeeded &= Holds(compare);
  for (const EtcdOperation& operation :
       outcome.succeeded ? transaction.then : transaction.otherwise) {
    // As etcd does: a lease that is over takes nothing.
    if (operation.lease != 0 && !data_.leases.contains(operation.lease)) {
      made_.clear();
      outcome.revision = -1;
      return outcome;
    }
  }
  for (const EtcdOperation& operation :
       outcome.succeeded ? transaction.then : transaction.otherwise) {
    Do(by, operation, &outcome);
  }
  Tell();
  outcome.revision = data_.revision;
  return outcome;
}

// What was made is one revision.
void SimEtcd::Tell() {
  if (made_.empty()) return;
  ++data_.revision;
  const std::vector<EtcdChange> made = std::exchange(made_, {});
  const bool is_lost = defect_ == Defect::kLosesChanges && random_.Below(kLosesOneIn) == 0;
  for (const auto& [id, watch] : std::map<int64_t, Watcher>(watches_)) {
    EtcdNews news;
    news.changes = ChangesBelow(made, watch.prefix);
    if (!news.changes.empty() && !is_lost) watch.hear(news);
  }
}

EtcdLeaseGrant SimEtcd::Grant(int64_t ttl_s) {
  const int64_t id = ++num_leases_;
  data_.leases[id] = {ttl_s, loop_.now_ns() + ttl_s * kEtcdNsPerSecond, {}};
  AskForEnd(id);
  return {id, ttl_s};
}

int64_t SimEtcd::Renew(int64_t id) {
  const auto it = data_.leases.find(id);
  if (it == data_.leases.end()) return 0;
  it->second.ends_ns = loop_.now_ns() + it->second.ttl_s * kEtcdNsPerSecond;
  return it->second.ttl_s;
}

void SimEtcd::Revoke(int64_t id) {
  const auto it = data_.leases.find(id);
  if (it == data_.leases.end()) return;
  const std::set<std::string> keys = it->second.keys;
  for (const std::string& key : keys) Delete(key);
  data_.leases.erase(id);
  Tell();
}

void SimEtcd::AskForEnd(int64_t lease) {
  const Lease& one = data_.leases[lease];
  int64_t wait_ns = one.ends_ns - loop_.now_ns();
  if (defect_ == Defect::kEndsLeasesEarly) wait_ns /= 4;
  const auto late_ns = static_cast<int64_t>(random_.Below(kEndsLateMaxNs));
  loop_.After(wait_ns + late_ns, [this, lease] { EndIfDue(lease); });
}

void SimEtcd::EndIfDue(int64_t lease) {
  const auto it = data_.leases.find(lease);
  if (it == data_.leases.end() || !is_up_) return;  // it is asked for anew when etcd is back
  const bool is_due = defect_ == Defect::kEndsLeasesEarly || it->second.ends_ns <= loop_.now_ns();
  if (!is_due) return AskForEnd(lease);
  if (defect_ != Defect::kForgetsLeases) Revoke(lease);
}

int64_t SimEtcd::Watch(const std::string& prefix, Hear hear) {
  watches_[++num_watches_] = {prefix, hear};
  hear({});
  return num_watches_;
}

void SimEtcd::GiveSign(int64_t watch) {
  const auto it = watches_.find(watch);
  if (it != watches_.end()) it->second.hear({.is_sign = true});
}

void SimEtcd::GoAway() {
  is_up_ = false;
  ++num_ends_;
  watches_.clear();
}

void SimEtcd::RenewAll() {
  is_up_ = true;
  for (auto& [id, lease] : data_.leases) {
    lease.ends_ns = loop_.now_ns() + lease.ttl_s * kEtcdNsPerSecond;
    AskForEnd(id);
  }
}

void SimEtcd::ComeBack() { RenewAll(); }

void SimEtcd::SetBack(Data data) {
  data_ = std::move(data);
  set_back_ns_ = loop_.now_ns();
  RenewAll();
}

void SimEtcd::ComeBackEmpty() { SetBack({}); }
void SimEtcd::ComeBackAsKept() { SetBack(kept_); }

}  // namespace graft
