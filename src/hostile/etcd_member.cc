#include "hostile/etcd_member.h"

#include <utility>

#include "cluster/cluster_keys.h"
#include "cluster/leader.h"

namespace graft {
namespace {

constexpr int64_t kBeginAgainNs = 500'000'000;
constexpr int64_t kChangeEveryNs = 700'000'000;
constexpr int64_t kNamesMax = 4;

}  // namespace

EtcdMember::EtcdMember(std::string id, bool is_frontend, const World& world)
    : id_(std::move(id)),
      is_frontend_(is_frontend),
      world_(world),
      process_(*world.loop),
      threads_(*world.loop, process_),
      client_(id_, *world.etcd, *world.way, *world.loop, *world.random, threads_, world.defect),
      main_(threads_.Start([this] { Main(); })) {}

EtcdMember::~EtcdMember() {
  threads_.End();
  main_.reset();
  leader_.reset();
  presence_.reset();
  registry_.reset();
  watcher_.reset();  // tells the follower
  follower_.reset();
}

std::string EtcdMember::RecordText() const {
  if (!is_frontend_) {
    RunnerRecord record;
    record.id = record.address = id_;
    record.running_requests = static_cast<int32_t>(num_changes_);
    return EncodeRecord(record);
  }
  FrontendRecord record;
  record.id = record.address = id_;
  record.waiting_requests = num_changes_;
  return EncodeRecord(record);
}

Status EtcdMember::Begin() {
  if (!is_frontend_ && follower_ == nullptr) {
    RegistryFollower::Options options;
    options.world = &threads_;
    follower_ = std::make_unique<RegistryFollower>(
        catalog_, options,
        [](const AdapterInfo& entry, ContentSource source) -> Result<std::string> {
          if (source == ContentSource::kFolder) return entry.path;
          return NotFoundError("no copies are made");
        },
        [] {});
  }
  ClusterWatcher::Options options;
  options.now = [loop = world_.loop] { return kSimUnixNs + loop->now_ns(); };
  options.patience_ms = 0;  // Main begins again, and time stands still for a member that has ended
  ASSIGN_OR_RETURN(watcher_, ClusterWatcher::Start(client_, options, [this](const auto& view) {
                     if (threads_.has_ended()) return;
                     world_.on_view(*view);
                     if (follower_ != nullptr) follower_->Follow(view);
                   }));
  presence_ = std::make_unique<Presence>(watcher_->store(),
                                         is_frontend_ ? FrontendKey(id_) : RunnerKey(id_),
                                         RecordText(), Presence::Options{});
  if (!is_frontend_) return OkStatus();
  registry_ = std::make_unique<EtcdRegistry>(watcher_->store(), id_);
  leader_ = std::make_unique<Leader>(watcher_->store(), Leader::Options{.id = id_},
                                     [this](int64_t lease_id) {
                                       ScaleHint hint;
                                       hint.runners_wanted = static_cast<int32_t>(Draw(100));
                                       return HintWrites(*watcher_->view(), hint, lease_id);
                                     });
  return OkStatus();
}

void EtcdMember::Main() {
  while (!threads_.has_ended() && !Begin().ok()) threads_.Wait(kBeginAgainNs);
  while (!threads_.has_ended()) {
    threads_.Wait(static_cast<int64_t>(world_.random->Exponential() * kChangeEveryNs));
    if (threads_.has_ended()) return;
    ++num_changes_;
    presence_->Set(RecordText());
    if (is_frontend_ && is_changing_) ChangeSomething();
  }
}

// Every content that is put is a new one.
void EtcdMember::ChangeSomething() {
  AdapterInfo entry;
  entry.name = "adapter" + std::to_string(Draw(kNamesMax));
  entry.hash = std::to_string(world_.run) + "." + std::to_string(num_changes_);
  entry.path = "/" + entry.hash;
  const int64_t what = Draw(10);
  Status status;
  if (what < 6) {
    const int64_t begun_ns = threads_.NowNs();
    status = registry_->Put(entry, /*replace=*/Draw(3) > 0);
    if (!threads_.has_ended()) world_.on_put(entry.hash, begun_ns, status);
  } else if (what < 8) {
    status = registry_->Remove(entry.name);
  } else if (what < 9) {
    status = registry_->RollBack(entry.name, 1 + Draw(4), "").status();
  } else {
    status = registry_->SetTenant({.name = "tenant", .weight = 1.0 + static_cast<double>(Draw(9))});
  }
  world_.findings->Note("{} changes {} ({}): {}", id_, entry.name, what, status.ToString());
}

}  // namespace graft
