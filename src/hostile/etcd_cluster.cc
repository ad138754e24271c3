#include "hostile/etcd_cluster.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/milliseconds.h"
#include "cluster/cluster_keys.h"

namespace graft {
namespace {

constexpr int64_t kEtcdFaultsEndNs = MsToNs(12'000);
// Then all that was begun ends, leases included, and all processes hear of it.
constexpr int64_t kEtcdRestNs = MsToNs(24'000);
// Processes go on changing the registry for so long after the last fault.
constexpr int64_t kQuietNs = MsToNs(4'000);
// Until the next renewals the processes do not know that etcd was set back.
constexpr int64_t kForgivenNs = MsToNs(6'000);

template <typename Versions>
std::map<std::string, std::pair<std::string, int64_t>> HashesOf(const Versions& adapters) {
  std::map<std::string, std::pair<std::string, int64_t>> registry;
  for (const auto& [name, adapter] : adapters) {
    registry[name] = {adapter.entry.hash, adapter.version};
  }
  return registry;
}

}  // namespace

EtcdCluster::EtcdCluster(const HostileOptions& options)
    : options_(options),
      random_(options.seed),
      findings_(loop_.clock(), options.keeps_lines),
      etcd_(loop_, random_, options.defect) {
  const ClusterRecord record = {.id = "cluster", .base_name = "base", .made_at = 1};
  cluster_text_ = EncodeRecord(record);
  etcd_.Commit("operator", {.then = {EtcdOperation::Put(ClusterKey(), cluster_text_)}});
  etcd_.Keep();
  NoteRegistry();
  etcd_.SetLook([this](const std::string& by, const EtcdKeyValue& made) { OnChange(by, made); });
  const int64_t num_frontends = 2 + Draw(2), num_runners = 1 + Draw(3);
  for (int64_t i = 0; i < num_frontends + num_runners; ++i) {
    machines_.push_back(std::make_unique<Machine>());
    Machine& machine = *machines_.back();
    machine.is_frontend = i < num_frontends;
    machine.id = (machine.is_frontend ? "frontend" : "runner") + std::to_string(i);
    Start(machine);
  }
}

void EtcdCluster::Start(Machine& machine) {
  if (machine.member != nullptr) return;
  findings_.Note("{} starts", machine.id);
  EtcdMember::World world{.loop = &loop_,
                          .random = &random_,
                          .findings = &findings_,
                          .etcd = &etcd_,
                          .way = &machine.way,
                          .defect = options_.defect,
                          .run = ++num_starts_};
  world.on_view = [this, id = machine.id](const ClusterView& view) { OnView(id, view); };
  world.on_put = [this](const std::string& hash, int64_t begun_ns, const Status& status) {
    OnPut(hash, begun_ns, status);
  };
  machine.member = std::make_unique<EtcdMember>(machine.id, machine.is_frontend, world);
  machine.member->SetChanging(!is_healed_);
}

void EtcdCluster::Kill(Machine& machine) {
  if (machine.member == nullptr) return;
  findings_.Note("{} dies", machine.id);
  if (ClusterWatcher* const watcher = machine.member->watcher(); watcher != nullptr) {
    on_disk_ = watcher->LastingRecords();
  }
  machine.member.reset();
  loop_.After(MsToNs(300 + Draw(4000)), [this, &machine] { Start(machine); });
}

EtcdCluster::Registry EtcdCluster::RegistryOfEtcd() const {
  std::map<std::string, AdapterVersion> adapters;
  for (const auto& [key, item] : etcd_.items()) {
    if (!HasPrefix(key, kAdaptersPrefix)) continue;
    const Result<AdapterVersion> version = DecodeAdapterVersion(item.value);
    if (version.ok()) adapters[NameInKey(key, kAdaptersPrefix)] = *version;
  }
  return HashesOf(adapters);
}

void EtcdCluster::NoteRegistry() {
  if (etcd_.set_back_ns() > life_since_ns_) {
    life_since_ns_ = etcd_.set_back_ns();
    lives_.emplace_back();
  }
  lives_.back()[etcd_.revision()] = RegistryOfEtcd();
}

// Only the leader writes what is the leader's, and no process writes into another cluster's etcd.
void EtcdCluster::OnChange(const std::string& by, const EtcdKeyValue& made) {
  const auto leader = etcd_.items().find(LeaderKey());
  if (made.key == HintKey() && (leader == etcd_.items().end() || leader->second.value != by)) {
    findings_.Add("{} writes as the leader, and is not", by);
  }
  const auto cluster = etcd_.items().find(ClusterKey());
  const bool is_ours = cluster != etcd_.items().end() && cluster->second.value == cluster_text_;
  if (!is_ours && by != "operator") findings_.Add("{} writes into an etcd that is not its own", by);
  if (!HasPrefix(made.key, kVersionsPrefix)) return;
  const Result<AdapterVersion> version = DecodeAdapterVersion(made.value);
  if (version.ok() && by != "operator") ++times_put_[version->entry.hash];
}

// What it says of the registry is what etcd had at that revision.
void EtcdCluster::OnView(const std::string& id, const ClusterView& view) {
  if (view.revision == 0) return;  // it has heard nothing so far
  const Registry seen = HashesOf(view.registry->adapters);
  for (const std::map<int64_t, Registry>& life : lives_) {
    const auto next = life.upper_bound(view.revision);
    if (next != life.begin() && std::prev(next)->second == seen) return;
  }
  findings_.Add("{} sees a registry of {} adapters that etcd never had, at revision {}", id,
                seen.size(), view.revision);
}

void EtcdCluster::OnPut(const std::string& hash, int64_t begun_ns, const Status& status) {
  if (etcd_.set_back_ns() >= begun_ns) return;  // what was done may be undone since
  const int times = times_put_.contains(hash) ? times_put_[hash] : 0;
  const bool is_unknown = status.code() == StatusCode::kDeadlineExceeded;
  const int least = status.ok() ? 1 : 0, most = status.ok() || is_unknown ? 1 : 0;
  if (times < least || times > most) {
    findings_.Add("a change that ended with {} was made {} times", status.ToString(), times);
  }
}

bool EtcdCluster::IsForgiven() const { return loop_.now_ns() - etcd_.set_back_ns() < kForgivenNs; }

// By the candidates' own belief. A stopped process does not count.
void EtcdCluster::CheckLeaders() {
  if (IsForgiven()) return;
  std::string leader;
  for (const auto& machine : machines_) {
    if (machine->member == nullptr || machine->member->process().is_stopped()) continue;
    if (!machine->member->leads()) continue;
    if (!leader.empty()) findings_.Add("{} and {} lead", leader, machine->id);
    leader = machine->id;
  }
}

// A process that relies on its record has one in etcd.
void EtcdCluster::CheckRecords() {
  if (IsForgiven()) return;
  for (const auto& machine : machines_) {
    if (machine->member == nullptr || machine->member->process().is_stopped()) continue;
    if (!machine->member->stands()) continue;
    const std::string key =
        machine->is_frontend ? FrontendKey(machine->id) : RunnerKey(machine->id);
    const auto it = etcd_.items().find(key);
    if (it == etcd_.items().end()) findings_.Add("{} believes that its record stands", machine->id);
  }
}

HostileResult EtcdCluster::Run() {
  loop_.After(MsToNs(1500), [this] { Fault(); });
  loop_.After(kEtcdFaultsEndNs, [this] { Heal(); });
  while (findings_.found().empty() && loop_.now_ns() < kEtcdFaultsEndNs + kEtcdRestNs) {
    const int64_t revision = etcd_.revision();
    loop_.RunNext();
    if (etcd_.revision() != revision) NoteRegistry();
    CheckLeaders();
    CheckRecords();
    if (is_healed_ && loop_.now_ns() > kEtcdFaultsEndNs + kQuietNs) {
      for (const auto& machine : machines_) {
        if (machine->member != nullptr) machine->member->SetChanging(false);
      }
    }
  }
  if (findings_.found().empty()) CheckEnd();
  HostileResult result = {findings_.found(), findings_.hash(), findings_.lines()};
  machines_.clear();
  return result;
}

void EtcdCluster::CheckEnd() {
  const Registry wanted = RegistryOfEtcd();
  int num_leaders = 0;
  for (const auto& machine : machines_) {
    EtcdMember* const member = machine->member.get();
    if (member == nullptr || member->watcher() == nullptr) {
      findings_.Add("{} has not come back", machine->id);
      continue;
    }
    const auto view = member->watcher()->view();
    num_leaders += member->leads() ? 1 : 0;
    if (!view->away.ok()) findings_.Add("{}: {}", machine->id, view->away.ToString());
    if (HashesOf(view->registry->adapters) != wanted) {
      findings_.Add("{} has another registry than etcd", machine->id);
    }
    if (std::ssize(view->runners) + std::ssize(view->frontends) != std::ssize(machines_)) {
      findings_.Add("{} knows {} runners and {} frontends of {} in all", machine->id,
                    view->runners.size(), view->frontends.size(), machines_.size());
    }
    if (machine->is_frontend) continue;
    for (const auto& [name, adapter] : wanted) {
      const Result<AdapterInfo> served = member->catalog().Find(name);
      if (!served.ok() || served->hash != adapter.first) {
        findings_.Add("{} serves something else as {}", machine->id, name);
      }
    }
    for (const AdapterInfo& info : member->catalog().List()) {
      if (!IsRunnersOwnName(info.name) && !wanted.contains(info.name)) {
        findings_.Add("{} serves {}, which nobody registered", machine->id, info.name);
      }
    }
  }
  if (num_leaders != 1) findings_.Add("{} lead in the end", num_leaders);
}

}  // namespace graft
