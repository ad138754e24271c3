#include "cluster/cluster_frontend.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/host_port.h"
#include "base/log.h"
#include "cluster/ask_in_turns.h"
#include "cluster/cluster_keys.h"
#include "cluster/cluster_store.h"
#include "cluster/leader.h"
#include "cluster/registry_follower.h"
#include "rpc/adapter_client.h"

namespace graft {
namespace {

constexpr std::chrono::seconds kDemandInterval(1);
constexpr double kDemandsPerMinute = 60;
constexpr std::chrono::milliseconds kMissingInterval(100);
// The audit log's, in etcd, which keeps all that it has in memory.
constexpr size_t kAuditLinesMax = 10'000;
constexpr int64_t kTrimEveryNs = 600'000'000'000;
// Before another runner is asked, too, to look at an adapter.
constexpr int64_t kProvePatienceMs = 10'000;
// Before a content that was found nowhere is looked for again.
constexpr int64_t kLookAgainNs = 2'000'000'000;

}  // namespace

Result<std::unique_ptr<ClusterFrontend>> ClusterFrontend::Start(RunnerSetOptions runners,
                                                                ClusterFrontendOptions options) {
  runners.addresses_come_later = true;
  std::unique_ptr<ClusterFrontend> frontend(
      new ClusterFrontend(std::move(runners), std::move(options)));
  RETURN_IF_ERROR(frontend->Begin());
  return frontend;
}

ClusterFrontend::ClusterFrontend(RunnerSetOptions runners, ClusterFrontendOptions options)
    : runners_options_(std::move(runners)), options_(std::move(options)) {}

Status ClusterFrontend::Begin() {
  id_ = options_.place.id.empty() ? options_.place.address : options_.place.id;
  ASSIGN_OR_RETURN(client_, EtcdClient::Make(options_.place.etcd));
  ASSIGN_OR_RETURN(runners_, RunnerSet::Start(runners_options_));
  ClusterWatcher::Options watching;
  watching.view_file = options_.place.view_file;
  ASSIGN_OR_RETURN(watcher_, ClusterWatcher::Start(*client_, watching, [this](const auto& view) {
                     std::lock_guard lock(view_mutex_);
                     Take(*view);
                   }));
  // While etcd is away each runner's own word is what counts.
  if (watcher_->view()->away.ok()) {
    RETURN_IF_ERROR(JoinBase(watcher_->store(), runners_options_.base));
  }
  {
    std::lock_guard lock(view_mutex_);
    Take(*watcher_->view());
  }
  registry_ = std::make_unique<EtcdRegistry>(watcher_->store(), "frontend " + id_);
  catalog_ = std::make_unique<ClusterCatalog>(
      *watcher_, *registry_, runners_->catalog(), runners_options_.base.name,
      [this](const AdapterLoad& load) { return Prove(load); }, UnixTimeSeconds);
  sources_ = std::make_unique<SourceRunners>(*watcher_, runners_options_.tls);
  if (!options_.learn_dir.empty()) {
    EtcdLearningStore::Options learning;
    learning.folder = options_.learn_dir;
    learning.by = "frontend " + id_;
    ASSIGN_OR_RETURN(learning_, EtcdLearningStore::Open(watcher_->store(), std::move(learning)));
  }
  if (!options_.contents.store.empty()) RETURN_IF_ERROR(ServeContents());
  presence_ = std::make_unique<Presence>(watcher_->store(), FrontendKey(id_),
                                         EncodeRecord(Describe({})), Presence::Options{});
  leader_ = std::make_unique<Leader>(watcher_->store(), Leader::Options{.id = id_},
                                     [this](int64_t lease_id) { return WhatToWrite(lease_id); });
  teller_ = std::thread([this] { TellLoop(); });
  recaller_ = std::thread([this] { RecallLoop(); });
  return OkStatus();
}

Status ClusterFrontend::ServeContents() {
  ContentServerOptions options = options_.contents;
  options.tls = runners_options_.tls;
  ASSIGN_OR_RETURN(contents_, ContentServer::Start(options, *watcher_));
  const std::string& advertised = options_.contents_advertised_host;
  contents_address_ =
      HostAndPort(advertised.empty() ? options_.contents.host : advertised, contents_->port());
  return OkStatus();
}

FrontendRecord ClusterFrontend::Describe(std::map<std::string, double> demand) const {
  return {.id = id_,
          .address = options_.place.address,
          .demand = std::move(demand),
          .process = process_,
          .contents_address = contents_address_,
          .waiting_requests = runners_->num_waiting()};
}

ClusterFrontend::~ClusterFrontend() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (teller_.joinable()) teller_.join();
  if (recaller_.joinable()) recaller_.join();
  leader_.reset();
  presence_.reset();
  contents_.reset();
  watcher_.reset();
}

std::vector<EtcdOperation> ClusterFrontend::WhatToWrite(int64_t lease_id) {
  const auto view = watcher_->view();
  std::vector<EtcdOperation> writes = LeaderWrites(*view, lease_id);
  for (EtcdOperation& one : HintWrites(*view, runners_->hint(), lease_id)) {
    writes.push_back(std::move(one));
  }
  for (EtcdOperation& one : TrimsThatAreDue()) writes.push_back(std::move(one));
  return writes;
}

// Deletes the oldest lines of an audit log that is too long; of one far too long, a part at each of
// the leader's turns.
std::vector<EtcdOperation> ClusterFrontend::TrimsThatAreDue() {
  const int64_t now_ns = SteadyClock::Get().NowNs();
  if (now_ns < trim_at_ns_) return {};
  Result<std::vector<EtcdOperation>> trims = watcher_->store().AuditTrims(kAuditLinesMax);
  if (!trims.ok()) return {};
  if (trims->empty()) trim_at_ns_ = now_ns + kTrimEveryNs;
  return std::move(trims).value();
}

Status ClusterFrontend::learns() const {
  const auto view = watcher_->view();
  for (const auto& [id, runner] : view->runners) {
    if (runner.learns && !runner.draining) return OkStatus();
  }
  return FailedPreconditionError(
      "no runner of this cluster learns: start one with graft runner --etcd HOST:PORT --learn-dir "
      "DIR --learn-share 0.3");
}

ScaleHint ClusterFrontend::hint() const {
  const auto view = watcher_->view();
  const std::optional<ScaleHint>& told = view->leader.hint;
  // The leader's first number may be from before it reached a runner.
  if (view->away.ok() && told.has_value() && told->runners > 0) return *told;
  return runners_->hint();
}

// A hint counts only while etcd answers and a leader stands: otherwise no runner is spare.
void ClusterFrontend::TakeHint(const ClusterView& view) {
  const bool consolidates =
      view.away.ok() && view.leader.hint.has_value() && view.leader.hint->consolidates;
  runners_->SetSpare(consolidates ? view.leader.hint->spare : std::vector<std::string>());
  int64_t num_waiting = 0;
  for (const auto& [id, frontend] : view.frontends) {
    if (id != id_) num_waiting += frontend.waiting_requests;
  }
  runners_->SetWaitingElsewhere(num_waiting);
}

void ClusterFrontend::Take(const ClusterView& view) {
  std::vector<std::string> runners;
  for (const auto& [id, runner] : view.runners) runners.push_back(runner.address);
  runners_->SetRunners(runners);
  TakeHint(view);
  if (told_ == view.registry) return;
  RegistryFacts facts;
  for (const auto& [name, adapter] : view.registry->adapters) {
    facts.adapters[adapter.entry.hash] = {adapter.entry.path, name};
  }
  for (const auto& [name, tenant] : view.registry->tenants) {
    facts.tenant_weights[name] = static_cast<float>(tenant.weight);
  }
  runners_->SetRegistry(std::move(facts));
  const bool same_keys = told_ != nullptr && told_->keys == view.registry->keys &&
                         told_->requires_key == view.registry->requires_key;
  told_ = view.registry;
  if (same_keys) return;
  // A cluster that has never had keys is open to all callers. An empty list admits none.
  if (view.registry->requires_key) options_.on_keys(DumpJson(view.KeysList()));
}

// One of the runners that have the folder looks whether it can be served at all.
Result<AdapterInfo> ClusterFrontend::Prove(const AdapterLoad& load) const {
  std::vector<std::string> addresses;
  for (const auto& [id, runner] : watcher_->view()->runners) {
    if (!runner.draining) addresses.push_back(runner.address);
  }
  // The one that has just fetched it first.
  const std::string fetcher = load.fetched_revision.empty() ? "" : sources_->FetcherOf(load.path);
  std::partition(addresses.begin(), addresses.end(),
                 [&](const std::string& address) { return address == fetcher; });
  std::vector<AdapterAsk> asks;
  for (const std::string& address : addresses) {
    ASSIGN_OR_RETURN(std::shared_ptr<AdapterClient> client,  // shared by both of these
                     AdapterClient::Make(address, runners_options_.tls));
    asks.push_back(
        {[client, &load] { return client->Load(load); }, [client] { client->Cancel(); }});
  }
  return AskInTurns(asks, kProvePatienceMs,
                    UnavailableError("no runner is up that could look at the adapter"));
}

// What was asked for is told, and what is lent is taken, once a second.
void ClusterFrontend::TellLoop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, kDemandInterval, [this] { return stopping_; });
    if (stopping_) return;
    lock.unlock();
    std::map<std::string, double> demand;
    for (const auto& [digest, requests] : options_.take_demand()) {
      if (requests > 0) demand[digest] = static_cast<double>(requests) * kDemandsPerMinute;
    }
    presence_->Set(EncodeRecord(Describe(std::move(demand))));
    options_.on_shares(SharesOf(*watcher_->view(), id_, presence_->stands()));
    lock.lock();
  }
}

// A runner that could go on with a request loads its adapter's content, wherever that still is.
Status ClusterFrontend::Recall(const MissingContent& missing) const {
  Status last = NotFoundError("no runner is up that could load it");
  for (const std::string& address : missing.runners) {
    ASSIGN_OR_RETURN(const auto client, AdapterClient::Make(address, runners_options_.tls));
    const Result<AdapterInfo> info = client->Load(
        {.name = kContentPrefix + missing.hash, .path = missing.path, .hash = missing.hash});
    if (info.ok() && info->hash == missing.hash) {
      LOG_INFO("runner {} goes on with adapter content {:.12}, which no name leads to", address,
               missing.hash);
      return OkStatus();
    }
    // A runner of the version before looks at the folder alone.
    last = info.ok() ? NotFoundError(address + " has other content there")
                     : info.status().WithContext(address);
  }
  return last;
}

void ClusterFrontend::RecallLoop() {
  std::map<std::string, int64_t> look_again_ns;  // by hash
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kMissingInterval, [this] { return stopping_; })) {
    lock.unlock();
    const int64_t now_ns = SteadyClock::Get().NowNs();
    std::erase_if(look_again_ns, [now_ns](const auto& one) { return one.second <= now_ns; });
    for (const MissingContent& missing : runners_->FindMissing()) {
      if (look_again_ns.contains(missing.hash)) continue;
      const Status recalled = Recall(missing);
      if (!recalled.ok()) {
        LOG_WARN(
            "requests wait for adapter content {:.12}, which no runner that could go on has: {}",
            missing.hash, recalled.message());
      }
      look_again_ns[missing.hash] = SteadyClock::Get().NowNs() + kLookAgainNs;
    }
    lock.lock();
  }
}

}  // namespace graft
