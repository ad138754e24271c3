#include "cluster/cluster_library.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "cluster/cluster_keys.h"
#include "cluster/cluster_store.h"
#include "cluster/cluster_view.h"
#include "cluster/etcd_registry.h"

namespace graft {
namespace {

constexpr int64_t kNsPerUnixSecond = 1'000'000'000;
constexpr int64_t kLastSecondOf9999 = 253'402'300'799;
constexpr size_t kHashDigitsPrinted = 12;
constexpr std::chrono::milliseconds kGonePoll(100);

// A record may hold any number: a time without a date is told as the nearest one.
std::string TimeOf(int64_t unix_seconds) {
  const int64_t second = std::clamp<int64_t>(unix_seconds, 0, kLastSecondOf9999);
  return fmt::format("{:%Y-%m-%d %H:%M:%SZ}", fmt::gmtime(second));
}

std::string Operator() {
  const char* const user = getlogin();
  return std::string("operator ") + (user == nullptr ? std::to_string(getuid()) : user);
}

std::string ProcessText(const ProcessPlace& process) {
  if (process.pid == 0) return "";
  return ", process " + std::to_string(process.pid) +
         (process.host.empty() ? "" : " of " + process.host);
}

std::string LineOf(const RunnerRecord& runner) {
  return fmt::format(
      "runner {}: {} of {} running, {} waiting, {} of {} pages free, {} adapters resident{}{}, "
      "protocol {}, weights {:.12}, {}{}\n",
      runner.address, runner.running_requests, runner.capacity_requests, runner.waiting_requests,
      runner.free_pages, runner.pages, runner.num_resident, runner.learns ? ", learns" : "",
      runner.draining ? ", draining" : "", runner.protocol, runner.base_id, runner.arithmetic_id,
      ProcessText(runner.process));
}

class EtcdClusterAdmin : public ClusterAdmin {
 public:
  explicit EtcdClusterAdmin(std::unique_ptr<EtcdClient> client) : client_(std::move(client)) {}

  Result<std::string> Init(const std::string& base_name) override {
    ASSIGN_OR_RETURN(const ClusterRecord cluster,
                     ClusterStore::Init(*client_, base_name, Operator()));
    return "made cluster " + cluster.id + "\n";
  }

  Result<std::string> Describe() override {
    ASSIGN_OR_RETURN(const auto store, ClusterStore::Open(*client_));
    ASSIGN_OR_RETURN(
        const EtcdOutcome all,
        store->Commit({.then = {EtcdOperation::GetPrefix(std::string(kClusterRoot))}}));
    ClusterMirror mirror;
    mirror.SetAll(all.found[0], all.revision, /*set_back=*/false);
    const auto view = mirror.View(OkStatus());
    std::string text =
        "cluster " + store->cluster().id + " of " + store->cluster().base_name + "\n";
    for (const auto& [id, frontend] : view->frontends) {
      text += "frontend " + frontend.address + (id == view->leader.leader_id ? ", leads" : "") +
              ProcessText(frontend.process) + "\n";
    }
    for (const auto& [id, runner] : view->runners) text += LineOf(runner);
    if (view->leader.hint.has_value()) {
      text += "wanted: " + std::to_string(view->leader.hint->runners_wanted) + " runners\n";
    }
    for (const auto& [name, adapter] : view->registry->adapters) {
      text += "adapter " + name + ": version " + std::to_string(adapter.version) + ", " +
              adapter.entry.hash.substr(0, kHashDigitsPrinted) + "\n";
    }
    for (const auto& [name, tenant] : view->registry->tenants) {
      text += fmt::format("tenant {}: weight {:g}\n", name, tenant.weight);
    }
    return text + std::to_string(view->registry->keys.size()) + " keys\n";
  }

  Result<std::string> SetBase(const BaseModelId& base) override {
    ASSIGN_OR_RETURN(const auto store, ClusterStore::Open(*client_));
    RETURN_IF_ERROR(ReplaceBase(*store, base, Operator()));
    return "the cluster's base model is '" + base.name + "'\n";
  }

  Result<std::string> Drain(const std::string& runner, int wait_seconds) override {
    ASSIGN_OR_RETURN(const auto store, ClusterStore::Open(*client_));
    const EtcdOperation look = EtcdOperation::Get(RunnerKey(runner));
    ASSIGN_OR_RETURN(const EtcdOutcome there, store->Commit({.then = {look}}));
    if (there.found[0].empty() || there.found[0][0].lease == 0) {
      return NotFoundError("there is no runner '" + runner +
                           "'; `graft cluster status` names those that there are");
    }
    // Under the runner's own lease: the mark goes with it.
    const int64_t lease = there.found[0][0].lease;
    const int64_t made_at = there.found[0][0].create_revision;
    EtcdTransaction mark;
    mark.compares = {EtcdCompare::CreateRevision(RunnerKey(runner), made_at)};
    mark.then = {EtcdOperation::Put(LeavingKey(runner), std::to_string(lease), lease)};
    ASSIGN_OR_RETURN(const EtcdOutcome marked,
                     store->Change(std::move(mark), {Operator(), "drain", runner, ""}));
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(wait_seconds);
    while (marked.succeeded && std::chrono::steady_clock::now() < until) {
      ASSIGN_OR_RETURN(const EtcdOutcome now, store->Commit({.then = {look}}));
      if (now.found[0].empty() || now.found[0][0].create_revision != made_at) break;
      std::this_thread::sleep_for(kGonePoll);
    }
    ASSIGN_OR_RETURN(const EtcdOutcome last, store->Commit({.then = {look}}));
    if (!last.found[0].empty() && last.found[0][0].create_revision == made_at) {
      return Status(StatusCode::kDeadlineExceeded,
                    "runner " + runner + " is marked for going, and has requests still after " +
                        std::to_string(wait_seconds) + " s; it goes when they are done");
    }
    return "runner " + runner + " has gone\n";
  }

  Result<std::string> Restore(const std::string& view_file) override {
    ASSIGN_OR_RETURN(const ClusterMirror mirror, ReadViewFile(view_file));
    const auto records = mirror.LastingRecords();
    RETURN_IF_ERROR(ClusterStore::Restore(*client_, records, Operator()));
    return "wrote back " + std::to_string(records.size()) + " records\n";
  }

  Result<std::string> Forget(const std::string& tenant) override {
    return WithRegistry([&](EtcdRegistry& registry) -> Result<std::string> {
      ASSIGN_OR_RETURN(const auto forgotten, registry.ForgetTenant(tenant));
      return "removed " + std::to_string(forgotten.num_records) + " records of tenant '" + tenant +
             "'\n";
    });
  }

  Result<std::string> Versions(const std::string& adapter) override {
    return WithRegistry([&](EtcdRegistry& registry) -> Result<std::string> {
      ASSIGN_OR_RETURN(const auto versions, registry.Versions(adapter));
      std::string text;
      for (const AdapterVersion& one : versions) {
        text += std::to_string(one.version) + "  " + one.entry.hash.substr(0, kHashDigitsPrinted) +
                "  " + TimeOf(one.entry.loaded_at) + "  " + one.entry.path + "\n";
      }
      return text;
    });
  }

  Result<std::string> RollBack(const std::string& adapter, int64_t version) override {
    return WithRegistry([&](EtcdRegistry& registry) -> Result<std::string> {
      ASSIGN_OR_RETURN(const AdapterVersion back, registry.RollBack(adapter, version, ""));
      return "'" + adapter + "' is version " + std::to_string(back.version) + " again\n";
    });
  }

  Result<std::string> SetWeight(const std::string& tenant, double weight) override {
    return WithRegistry([&](EtcdRegistry& registry) -> Result<std::string> {
      RETURN_IF_ERROR(registry.SetTenant({tenant, weight}));
      return fmt::format("tenant '{}' has weight {:g}\n", tenant, weight);
    });
  }

  Result<std::string> SetKeys(const std::string& json) override {
    ASSIGN_OR_RETURN(const Json entries, ParseJson(json));
    return WithRegistry([&](EtcdRegistry& registry) -> Result<std::string> {
      RETURN_IF_ERROR(registry.SetKeys(entries));
      return "the cluster has " + std::to_string(entries.size()) + " keys\n";
    });
  }

  Result<std::string> Audit(size_t lines_max) override {
    ASSIGN_OR_RETURN(const auto store, ClusterStore::Open(*client_));
    ASSIGN_OR_RETURN(const auto entries, store->ReadAudit(lines_max));
    std::string text;
    for (const AuditEntry& entry : entries) {
      text += TimeOf(entry.unix_ns / kNsPerUnixSecond) + "  " + entry.line.change + " '" +
              entry.line.subject + "' by " + entry.line.by +
              (entry.line.tenant.empty() ? "" : " for '" + entry.line.tenant + "'") + "\n";
    }
    return text;
  }

 private:
  template <typename Act>
  Result<std::string> WithRegistry(const Act& act) {
    ASSIGN_OR_RETURN(const auto store, ClusterStore::Open(*client_));
    EtcdRegistry registry(*store, Operator());
    return act(registry);
  }

  const std::unique_ptr<EtcdClient> client_;
};

}  // namespace

Result<std::unique_ptr<ClusterAdmin>> MakeClusterAdmin(const EtcdOptions& etcd) {
  ASSIGN_OR_RETURN(auto client, EtcdClient::Make(etcd));
  return std::unique_ptr<ClusterAdmin>(std::make_unique<EtcdClusterAdmin>(std::move(client)));
}

}  // namespace graft
