#include "cluster/leader.h"

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

}  // namespace graft
