#include "cluster/cluster_frontend.h"

#include <chrono>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/cluster_keys.h"
#include "cluster/leader_duties.h"
#include "rpc/adapter_client.h"

namespace graft {
namespace {

constexpr std::chrono::seconds kDemandInterval(1);
constexpr double kDemandsPerMinute = 60;

}  // namespace

Result<std::unique_ptr<ClusterFrontend>> ClusterFrontend::Start(FrontendRunnersOptions runners,
                                                                ClusterFrontendOptions options) {
  std::unique_ptr<ClusterFrontend> frontend(
      new ClusterFrontend(std::move(runners), std::move(options)));
  RETURN_IF_ERROR(frontend->Begin());
  return frontend;
}

ClusterFrontend::ClusterFrontend(FrontendRunnersOptions runners, ClusterFrontendOptions options)
    : runners_options_(std::move(runners)), options_(std::move(options)) {}

Status ClusterFrontend::Begin() {
  id_ = options_.place.id.empty() ? options_.place.address : options_.place.id;
  ASSIGN_OR_RETURN(client_, EtcdClient::Make(options_.place.etcd));
  ASSIGN_OR_RETURN(runners_, RunnerSet::Start({.addresses_come_later = true,
                                               .tls = runners_options_.tls,
                                               .base = runners_options_.base,
                                               .limits = runners_options_.limits}));
  ClusterWatcher::Options watching;
  watching.view_file = options_.place.view_file;
  ASSIGN_OR_RETURN(watcher_, ClusterWatcher::Start(*client_, watching, [this](const auto& view) {
                     std::lock_guard lock(view_mutex_);
                     Take(*view);
                   }));
  {
    std::lock_guard lock(view_mutex_);
    Take(*watcher_->view());
  }
  registry_ = std::make_unique<EtcdRegistry>(watcher_->store(), "frontend " + id_);
  catalog_ = std::make_unique<ClusterCatalog>(
      *watcher_, *registry_, runners_->catalog(), runners_options_.base.name,
      [this](const AdapterLoad& load) { return Prove(load); }, UnixTimeSeconds);
  const FrontendRecord record = {id_, options_.place.address, {}};
  presence_ = std::make_unique<Presence>(watcher_->store(), FrontendKey(id_), EncodeRecord(record),
                                         Presence::Options{});
  leader_ = std::make_unique<Leader>(
      watcher_->store(), Leader::Options{.id = id_},
      [this](int64_t lease_id) { return LeaderWrites(*watcher_->view(), lease_id); });
  teller_ = std::thread([this] { TellLoop(); });
  return OkStatus();
}

ClusterFrontend::~ClusterFrontend() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (teller_.joinable()) teller_.join();
  leader_.reset();
  presence_.reset();
  watcher_.reset();
}

void ClusterFrontend::Take(const ClusterView& view) {
  std::vector<ListedRunner> runners;
  for (const auto& [id, runner] : view.runners) {
    runners.push_back({runner.address, runner.resident});
  }
  runners_->SetRunners(runners);
  if (told_ == view.registry) return;
  RegistryFacts facts;
  for (const auto& [name, adapter] : view.registry->adapters) {
    facts.adapters.insert(adapter.entry.hash);
  }
  for (const auto& [name, tenant] : view.registry->tenants) {
    facts.tenant_weights[name] = static_cast<float>(tenant.weight);
  }
  runners_->SetRegistry(std::move(facts));
  const bool same_keys = told_ != nullptr && told_->keys == view.registry->keys;
  told_ = view.registry;
  if (same_keys) return;
  // Without keys everybody may call: that is how a cluster begins, and how none becomes.
  if (!view.registry->keys.empty()) options_.on_keys(DumpJson(view.KeysList()));
}

// One of the runners looks whether it can be served at all.
Result<AdapterInfo> ClusterFrontend::Prove(const AdapterLoad& load) const {
  Status last = UnavailableError("no runner is up that could look at the adapter");
  for (const auto& [id, runner] : watcher_->view()->runners) {
    if (runner.draining) continue;
    ASSIGN_OR_RETURN(const auto client, AdapterClient::Make(runner.address, runners_options_.tls));
    Result<AdapterInfo> info = client->Load(load);
    if (info.ok() || info.status().code() != StatusCode::kUnavailable) return info;
    last = info.status();
  }
  return last;
}

// What was asked for is told, and what is lent is taken, once a second.
void ClusterFrontend::TellLoop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, kDemandInterval, [this] { return stopping_; });
    if (stopping_) return;
    lock.unlock();
    FrontendRecord record = {id_, options_.place.address, {}};
    for (const auto& [digest, requests] : options_.take_demand()) {
      if (requests > 0) record.demand[digest] = static_cast<double>(requests) * kDemandsPerMinute;
    }
    presence_->Set(EncodeRecord(record));
    options_.on_shares(SharesOf(*watcher_->view(), id_, presence_->stands()));
    lock.lock();
  }
}

}  // namespace graft
