#include "cluster/leader.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/milliseconds.h"
#include "cluster/cluster_keys.h"

namespace graft {

Leader::Leader(ClusterStore& store, Options options, Duty duty)
    : store_(store),
      world_(store.client().world()),
      options_(std::move(options)),
      duty_(std::move(duty)),
      lease_(store.client(), options_.ttl_s, [](int64_t) { return OkStatus(); }),
      thread_(world_.Start([this] { Run(); })) {}

Leader::~Leader() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.reset();
}

bool Leader::leads() const {
  std::lock_guard lock(mutex_);
  return elected_at_ != 0 && lease_.id() == lease_id_ && lease_.held();
}

int Leader::num_terms() const {
  std::lock_guard lock(mutex_);
  return num_terms_;
}

void Leader::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const bool elected = elected_at_ != 0;
    lock.unlock();
    if (elected) {
      Work();
    } else {
      Campaign();
    }
    lock.lock();
    world_.WaitFor(lock, wake_, MsToNs(options_.turn_ms), [this] { return stopping_; });
  }
}

void Leader::Campaign() {
  const int64_t lease_id = lease_.id();
  if (lease_id == 0 || !lease_.held()) return;
  EtcdTransaction transaction;
  transaction.compares = {EtcdCompare::Absent(LeaderKey())};
  transaction.then = {EtcdOperation::Put(LeaderKey(), options_.id, lease_id)};
  transaction.otherwise = {EtcdOperation::Get(LeaderKey())};
  const Result<EtcdOutcome> outcome = store_.Commit(std::move(transaction));
  if (!outcome.ok()) return;
  int64_t elected_at = outcome->revision;
  if (!outcome->succeeded) {
    // The place is ours if a call took it and its answer was lost.
    const std::vector<EtcdKeyValue>& holder = outcome->found[0];
    if (holder.empty() || holder[0].lease != lease_id) return;
    elected_at = holder[0].create_revision;
  }
  std::lock_guard lock(mutex_);
  elected_at_ = elected_at;
  lease_id_ = lease_id;
  ++num_terms_;
  LOG_INFO("{} leads the cluster", options_.id);
}

void Leader::Work() {
  if (!leads()) return StepDown("its lease is over");
  EtcdTransaction transaction;
  int64_t lease_id = 0;
  {
    std::lock_guard lock(mutex_);
    transaction.compares = {EtcdCompare::CreateRevision(LeaderKey(), elected_at_)};
    lease_id = lease_id_;
  }
  transaction.then = duty_(lease_id);
  const Result<EtcdOutcome> outcome = store_.Commit(std::move(transaction));
  if (outcome.ok() && !outcome->succeeded) StepDown("another was elected");
  if (outcome.status().code() == StatusCode::kFailedPrecondition) StepDown("etcd is another's");
}

void Leader::StepDown(const std::string& why) {
  std::lock_guard lock(mutex_);
  elected_at_ = 0;
  LOG_INFO("{} leads the cluster no more: {}", options_.id, why);
}

namespace {

// The part of a budget that is divided evenly among the frontends.
constexpr double kEvenPart = 0.5;

using Budgets = std::map<std::string, double>;

// What limits allow a minute, under the names that the servers' accounts have (keys/api_keys.cc).
void AddBudgets(const Json& limits, const std::string& name, Budgets* budgets) {
  const auto add = [&](const char* field, const std::string& its_name) {
    const auto it = limits.find(field);
    if (it == limits.end() || !it->is_number()) return;
    if (const double budget = it->get<double>(); budget > 0) (*budgets)[its_name] = budget;
  };
  if (!limits.is_object()) return;
  add("requests_per_minute", name);
  add("tokens_per_minute", name + ":tokens");
}

// Those of all keys, and of their tenants.
Budgets BudgetsOf(const ClusterView& view) {
  Budgets budgets;
  for (const auto& [digest, key] : view.registry->keys) {
    AddBudgets(key, digest, &budgets);
    if (!key.is_object() || !key.contains("tenant_limits")) continue;
    AddBudgets(key["tenant_limits"], "tenant:" + key.value("tenant", std::string()), &budgets);
  }
  return budgets;
}

double DemandOf(const FrontendRecord& frontend, const std::string& name) {
  const auto it = frontend.demand.find(name);
  return it == frontend.demand.end() ? 0 : std::max(it->second, 0.0);
}

}  // namespace

std::map<std::string, std::map<std::string, double>> LendSlices(const ClusterView& view) {
  std::map<std::string, std::map<std::string, double>> slices;
  const auto num_frontends = static_cast<double>(view.frontends.size());
  for (const auto& [name, budget] : BudgetsOf(view)) {
    double demand = 0;
    for (const auto& [id, frontend] : view.frontends) demand += DemandOf(frontend, name);
    for (const auto& [id, frontend] : view.frontends) {
      const double even = budget / num_frontends;
      const double asked = demand > 0 ? budget * DemandOf(frontend, name) / demand : even;
      slices[id][name] = kEvenPart * even + (1 - kEvenPart) * asked;
    }
  }
  return slices;
}

std::map<std::string, double> EvenSlice(const ClusterView& view) {
  std::map<std::string, double> slice;
  const auto num_frontends = static_cast<double>(std::max<size_t>(view.frontends.size(), 1));
  for (const auto& [name, budget] : BudgetsOf(view)) slice[name] = budget / num_frontends;
  return slice;
}

std::map<std::string, double> SharesOf(const ClusterView& view, const std::string& frontend,
                                       bool stands) {
  std::map<std::string, double> shares = EvenSlice(view);
  const auto lent = view.leader.slices.find(frontend);
  if (!view.away.ok() || !stands || lent == view.leader.slices.end()) return shares;
  // A key that is new, or was taken away, is not in both.
  for (const auto& [name, per_minute] : lent->second) {
    if (shares.contains(name)) shares[name] = per_minute;
  }
  return shares;
}

std::vector<EtcdOperation> HintWrites(const ClusterView& view, const ScaleHint& hint,
                                      int64_t lease_id) {
  if (view.leader.hint == hint) return {};
  return {EtcdOperation::Put(HintKey(), EncodeRecord(hint), lease_id)};
}

std::vector<EtcdOperation> LeaderWrites(const ClusterView& view, int64_t lease_id) {
  std::vector<EtcdOperation> writes;
  // Keys that an earlier version set come without this record. If that version took the last key
  // away, nothing would ask for a key any more.
  if (view.registry->requires_key && !view.registry->says_so) {
    writes.push_back(EtcdOperation::Put(KeysRequiredKey(), kKeysRequired));
  }
  const auto slices = LendSlices(view);
  if (slices == view.leader.slices) return writes;
  writes.push_back(EtcdOperation::Put(SlicesKey(), DumpJson(slices), lease_id));
  return writes;
}

}  // namespace graft
