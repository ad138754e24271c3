#include "cluster/cluster_watcher.h"

#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/milliseconds.h"
#include "base/new_file.h"
#include "cluster/cluster_keys.h"

namespace graft {
namespace {

// Between two writings of the view.
constexpr int64_t kSaveMs = 500;
constexpr int64_t kFirstViewMs = 10'000;
constexpr int64_t kFirstLookMs = 100;

}  // namespace

Result<std::unique_ptr<ClusterWatcher>> ClusterWatcher::Start(EtcdClient& client, Options options,
                                                              OnView on_view) {
  ClusterMirror mirror;
  std::string known;
  if (!options.view_file.empty() && FileExists(options.view_file)) {
    ASSIGN_OR_RETURN(mirror, ReadViewFile(options.view_file));
    known = mirror.ClusterText();
  }
  Result<std::unique_ptr<ClusterStore>> store = UnavailableError("");
  const auto open = [&] {
    store = ClusterStore::Open(client, options.now);
    return store.status();
  };
  Status away = UntilAnswered(client, known.empty() ? options.patience_ms : 0, open);
  if (!away.ok()) {
    // An etcd without a cluster may have lost its data: running processes go on, but a start fails
    // until the data is restored.
    const bool silent = away.code() != StatusCode::kFailedPrecondition;
    if (known.empty() || !silent) return away;
    store = ClusterStore::FromRecord(client, known, options.now);
    if (!store.ok()) return store.status();
  } else if (!known.empty() && (*store)->Guard().value != known) {
    return FailedPreconditionError(client.name() + " has another cluster than the view in " +
                                   options.view_file + ": remove that file to join it");
  }
  std::unique_ptr<ClusterWatcher> watcher(new ClusterWatcher(
      client, std::move(options), std::move(on_view), std::move(*store), std::move(mirror), away));
  if (!away.ok()) {
    LOG_WARN("starting with the cluster as it was last known: {}", away.message());
    return watcher;
  }
  std::unique_lock lock(watcher->mutex_);
  const auto is_heard = [&] { return watcher->heard_; };
  for (int64_t waited_ms = 0; waited_ms < kFirstViewMs && !is_heard(); waited_ms += kFirstLookMs) {
    watcher->world_.WaitFor(lock, watcher->wake_, MsToNs(kFirstLookMs), is_heard);
  }
  if (!is_heard()) {
    const Status why = watcher->away_;
    lock.unlock();
    return why.ok() ? UnavailableError(client.name() + " does not answer") : why;
  }
  lock.unlock();
  return watcher;
}

ClusterWatcher::ClusterWatcher(EtcdClient& client, Options options, OnView on_view,
                               std::unique_ptr<ClusterStore> store, ClusterMirror mirror,
                               Status away)
    : world_(client.world()),
      options_(std::move(options)),
      on_view_(std::move(on_view)),
      store_(std::move(store)),
      mirror_(std::move(mirror)),
      away_(std::move(away)),
      view_(mirror_.View(away_)) {
  watch_ = std::make_unique<EtcdWatch>(client, std::string(kClusterRoot), store_->Guard(),
                                       store_->GuardFailure(), *this);
  thread_ = world_.Start([this] { Run(); });
}

ClusterWatcher::~ClusterWatcher() {
  watch_.reset();
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.reset();
}

std::shared_ptr<const ClusterView> ClusterWatcher::view() const {
  std::lock_guard lock(mutex_);
  return view_;
}

std::set<std::string> ClusterWatcher::Contents() const {
  std::lock_guard lock(mutex_);
  return mirror_.Contents();
}

std::map<std::string, std::string> ClusterWatcher::LastingRecords() const {
  std::lock_guard lock(mutex_);
  return mirror_.LastingRecords();
}

void ClusterWatcher::Publish(std::unique_lock<std::mutex> lock) {
  view_ = mirror_.View(away_);
  const std::shared_ptr<const ClusterView> view = view_;
  lock.unlock();
  wake_.notify_all();
  if (on_view_) on_view_(view);
}

void ClusterWatcher::OnAll(const std::vector<EtcdKeyValue>& items, int64_t revision,
                           bool set_back) {
  std::unique_lock lock(mutex_);
  // If the view on disk is of a later revision, etcd was set back meanwhile.
  set_back = set_back || (!heard_ && revision < view_->revision);
  mirror_.SetAll(items, revision, set_back);
  if (set_back) {
    LOG_WARN("etcd was set back; runners have {} ms to come back", options_.come_back_ms);
    let_go_at_ns_ = world_.NowNs() + MsToNs(options_.come_back_ms);
  }
  heard_ = true;
  unsaved_ = true;
  if (!away_.ok()) LOG_INFO("etcd is heard again");
  away_ = OkStatus();
  Publish(std::move(lock));
}

void ClusterWatcher::OnChanges(const std::vector<EtcdChange>& changes, int64_t revision) {
  std::unique_lock lock(mutex_);
  mirror_.Apply(changes, revision);
  unsaved_ = true;
  Publish(std::move(lock));
}

void ClusterWatcher::OnAway(const Status& why) {
  std::unique_lock lock(mutex_);
  LOG_WARN("the cluster stays as it was last known: {}", why.message());
  away_ = why;
  Publish(std::move(lock));
}

void ClusterWatcher::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    world_.WaitFor(lock, wake_, MsToNs(kSaveMs), [this] { return stopping_; });
    if (let_go_at_ns_ != 0 && world_.NowNs() >= let_go_at_ns_) {
      let_go_at_ns_ = 0;
      if (mirror_.LetGo()) {
        unsaved_ = true;
        Publish(std::move(lock));
        lock = std::unique_lock(mutex_);
      }
    }
    if (unsaved_) Save(lock);
  }
}

void ClusterWatcher::Save(std::unique_lock<std::mutex>& lock) {
  unsaved_ = false;
  if (options_.view_file.empty()) return;
  const ClusterMirror mirror = mirror_;
  lock.unlock();
  // The file holds digests of keys: only its owner may read it.
  const Status saved = WriteWholeFile(options_.view_file, mirror.Encode(), 0600);
  lock.lock();
  const std::string failure = saved.ok() ? "" : saved.message();
  if (failure == save_failure_) return;
  save_failure_ = failure;
  if (saved.ok()) {
    LOG_INFO("the view is written to {} again", options_.view_file);
  } else {
    LOG_WARN("a start while etcd is away would not know the cluster: {}", failure);
  }
}

}  // namespace graft
