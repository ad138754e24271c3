#include "cluster/cluster_runner.h"

#include <chrono>
#include <set>
#include <utility>

#include "base/file.h"
#include "base/host_port.h"
#include "base/log.h"
#include "cluster/cluster_keys.h"
#include "cluster/cluster_store.h"

namespace graft {
namespace {

constexpr std::chrono::milliseconds kTellInterval(500);
// The store is looked through at every so many tellings.
constexpr int kTellsPerSweep = 120;

std::optional<FileJail> JailOf(const std::vector<std::string>& roots) {
  if (roots.empty()) return std::nullopt;
  return FileJail(roots);
}

}  // namespace

Result<std::unique_ptr<ClusterRunner>> ClusterRunner::Start(const RunnerServiceOptions& service,
                                                            const ClusterRunnerOptions& options,
                                                            Generator& generator,
                                                            AdapterCatalog& catalog,
                                                            std::function<RunnerLoad()> load) {
  std::unique_ptr<ClusterRunner> runner(
      new ClusterRunner(service, options, generator, catalog, std::move(load)));
  RETURN_IF_ERROR(runner->Begin());
  return runner;
}

ClusterRunner::ClusterRunner(const RunnerServiceOptions& service, ClusterRunnerOptions options,
                             Generator& generator, AdapterCatalog& catalog,
                             std::function<RunnerLoad()> load)
    : service_options_(service),
      options_(std::move(options)),
      generator_(generator),
      catalog_(catalog),
      load_(std::move(load)) {}

Status ClusterRunner::Begin() {
  ASSIGN_OR_RETURN(client_, EtcdClient::Make(options_.place.etcd));
  if (!options_.store.empty()) {
    ASSIGN_OR_RETURN(ContentStore store, ContentStore::Open(options_.store, service_options_.tls,
                                                            options_.hash_folder));
    store_ = std::make_unique<ContentStore>(std::move(store));
  }
  ClusterWatcher::Options watching;
  watching.view_file = options_.place.view_file;
  ASSIGN_OR_RETURN(watcher_, ClusterWatcher::Start(*client_, watching,
                                                   [this](const auto& view) { OnView(view); }));
  if (watcher_->view()->away.ok()) {
    RETURN_IF_ERROR(JoinBase(watcher_->store(), service_options_.base));
  }
  follower_ = std::make_unique<RegistryFollower>(
      catalog_, RegistryFollower::Options{},
      [this](const AdapterInfo& entry, ContentSource source) { return Locate(entry, source); },
      [this] {
        std::lock_guard lock(mutex_);
        if (serving_ != nullptr) serving_->OnAdaptersChanged();
      });
  adapters_ = std::make_unique<AdapterService>(
      AdapterService::Handlers{[this](const AdapterLoad& load) { return Serve(load); },
                               [this](const std::string& hash) { return FolderOf(hash); },
                               JailOf(options_.adapter_roots), options_.sources});
  ASSIGN_OR_RETURN(service_, RunnerService::Start(service_options_, generator_, catalog_, load_,
                                                  adapters_.get()));
  address_ = options_.place.address;
  if (address_.empty()) address_ = HostAndPort(service_options_.host, service_->port());
  {
    std::lock_guard lock(mutex_);
    serving_ = service_.get();
    following_ = follower_.get();
    following_->Follow(watcher_->view());
  }
  const RunnerRecord record = Describe();
  presence_ = std::make_unique<Presence>(watcher_->store(), RunnerKey(record.id),
                                         EncodeRecord(record), Presence::Options{});
  if (options_.learns) {
    EtcdLearningStore::Options learning;
    learning.folder = options_.learn_dir;
    learning.by = "runner " + record.id;
    learning.lease_id = [this] { return presence_->stands() ? presence_->lease_id() : 0; };
    ASSIGN_OR_RETURN(learning_, EtcdLearningStore::Open(watcher_->store(), std::move(learning)));
  }
  teller_ = std::thread([this] { TellLoop(); });
  return OkStatus();
}

ClusterRunner::~ClusterRunner() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    serving_ = nullptr;
    following_ = nullptr;
  }
  wake_.notify_all();
  if (teller_.joinable()) teller_.join();
  learning_.reset();
  presence_.reset();
  // Its calls use the follower, which uses the watcher.
  service_.reset();
  follower_.reset();
  watcher_.reset();
}

void ClusterRunner::BeginDrain() {
  {
    std::lock_guard lock(mutex_);
    draining_ = true;
  }
  wake_.notify_all();
  service_->BeginDrain();
}

void ClusterRunner::OnView(const std::shared_ptr<const ClusterView>& view) {
  std::lock_guard lock(mutex_);
  if (following_ != nullptr) following_->Follow(view);
}

Result<std::string> ClusterRunner::Locate(const AdapterInfo& entry, ContentSource source) const {
  // What was learned goes by its name in the folder that is shared, each machine by its own mount.
  const bool is_learned = entry.owner.has_value();
  const bool has_folder = !is_learned || !options_.learn_dir.empty();
  const std::string path = is_learned ? options_.learn_dir + "/adapters/" + entry.path : entry.path;
  if (source == ContentSource::kFolder && has_folder) return path;
  if (source == ContentSource::kFolder) {
    return NotFoundError("it was learned, and this runner has not --learn-dir");
  }
  if (store_ == nullptr) {
    return NotFoundError("without --adapter-store it is not fetched from another machine");
  }
  if (source == ContentSource::kCopy) return store_->Keep(entry.hash, path);
  return store_->Get(entry.hash, Peers());
}

// What another machine asks to have loaded.
Result<AdapterInfo> ClusterRunner::Serve(const AdapterLoad& load) {
  Result<AdapterInfo> info = load.hash.empty() ? follower_->Prove(load) : follower_->Recall(load);
  if (info.ok() || options_.adapters_dir.empty()) return info;
  // Clients do not learn of places on this machine: what lies in the adapters folder goes by its
  // name there.
  std::string told = info.status().message();
  const std::string& folder = options_.adapters_dir;
  for (const auto& [text, word] : {std::pair(folder + "/", std::string()),
                                   std::pair(folder, std::string("the adapters folder"))}) {
    for (size_t at = told.find(text); at != std::string::npos; at = told.find(text, at)) {
      told.replace(at, text.size(), word);
    }
  }
  return Status(info.status().code(), told);
}

std::vector<std::string> ClusterRunner::Peers() const {
  std::vector<std::string> peers = watcher_->view()->ContentHolders();
  std::erase(peers, address_);
  return peers;
}

Result<std::string> ClusterRunner::FolderOf(const std::string& hash) const {
  if (store_ != nullptr) {
    Result<std::string> kept = store_->Find(hash);
    if (kept.ok()) return kept;
  }
  for (const AdapterInfo& info : catalog_.List()) {
    if (info.hash == hash) return info.path;
  }
  return NotFoundError("this runner has no adapter of content " + hash);
}

RunnerRecord ClusterRunner::Describe() {
  if (store_ != nullptr && ++num_tells_ % kTellsPerSweep == 0) SweepStore();
  const RunnerLoad load = load_();
  RunnerRecord record;
  record.id = options_.place.id.empty() ? address_ : options_.place.id;
  record.address = address_;
  record.arithmetic_id = service_options_.arithmetic_id;
  record.base_id = service_options_.base.weights_hash;
  record.process = process_;
  record.protocol = static_cast<int32_t>(kProtocolVersion);
  record.capacity_requests = generator_.limits().requests_max;
  record.running_requests = static_cast<int32_t>(load.requests_running);
  record.waiting_requests = static_cast<int32_t>(load.requests_waiting);
  record.pages = service_options_.num_pages;
  record.free_pages = load.pages_free;
  record.num_resident = load.figures.adapters_resident;
  record.learns = options_.learns;
  if (options_.sources != nullptr) record.sources = options_.sources->names();
  std::lock_guard lock(mutex_);
  record.draining = draining_;
  return record;
}

// Removes contents from the disk that are not served here and that no name in the registry leads
// to, now or in a kept version.
void ClusterRunner::SweepStore() const {
  if (!watcher_->view()->away.ok()) return;
  std::set<std::string> wanted = watcher_->Contents();
  for (const AdapterInfo& info : catalog_.List()) wanted.insert(info.hash);
  const int num_removed = store_->Sweep(wanted, kContentGrace);
  if (num_removed > 0) LOG_INFO("{} adapters that nobody wants left the store", num_removed);
}

// A mark is for the process that had this lease, and not for one that came in its place.
void ClusterRunner::LeaveIfMarked() {
  const auto view = watcher_->view();
  const std::string id = options_.place.id.empty() ? address_ : options_.place.id;
  const auto mark = view->leaving.find(id);
  if (mark == view->leaving.end() || mark->second != std::to_string(presence_->lease_id())) return;
  if (is_leaving_) return;
  is_leaving_ = true;
  LOG_INFO("this runner is marked for going");
  if (options_.on_leave) options_.on_leave();
}

void ClusterRunner::TellLoop() {
  std::unique_lock lock(mutex_);
  bool told_drain = false;
  while (!stopping_) {
    wake_.wait_for(lock, kTellInterval, [&] { return stopping_ || (draining_ && !told_drain); });
    if (stopping_) return;
    told_drain = draining_;
    lock.unlock();
    presence_->Set(EncodeRecord(Describe()));
    LeaveIfMarked();
    lock.lock();
  }
}

}  // namespace graft
