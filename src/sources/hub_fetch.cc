#include "sources/hub_fetch.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/log.h"
#include "sources/hub_cache.h"

namespace graft {
namespace {

constexpr int kTriesBesideACache = 2;
constexpr int64_t kDiskReserveBytes = 32 << 20;
constexpr int64_t kHubIndexBytesMax = 64 << 20;

// One snapshot on its way into the cache.
class SnapshotFetch {
 public:
  SnapshotFetch(const HubSettings& settings, const HubName& name, HubClient& client,
                const DownloadOptions& options)
      : settings_(settings),
        name_(name),
        client_(client),
        options_(options),
        cache_(settings.cache, name.repo) {}

  Result<HubSnapshot> Run(const std::string& commit, HubKind wanted);

 private:
  // Files by etag: those of the same bytes are one blob, and all programs take locks in this order.
  using Blobs = std::map<std::string, std::vector<HubFile>>;

  Status Fetch(const HubTree& files);
  Status FetchGroup(const Blobs& group, int64_t done_bytes, int64_t total_bytes);
  Status Link(const Blobs& group) const;
  Status CheckLinked(const HubFile& file) const;
  Status Note(const HubTree& tree, HubKind kind, bool is_all) const;
  Status CheckRoom(const Blobs& missing) const;
  Result<DownloadedFile> Prepare(const HubFile& file, bool has_lock) const;

  const HubSettings& settings_;
  const HubName& name_;
  HubClient& client_;
  const DownloadOptions& options_;
  const HubCache cache_;
  std::string commit_;
  Status prepared_;  // whether the cache can be written: one that cannot may have all files
  // The file without which the snapshot is no model and no adapter: it gets its place last, so that
  // what is there of a snapshot that was cut off does not pass for all of it.
  std::string last_;
  int64_t fetched_bytes_ = 0;
};

Status SnapshotFetch::CheckRoom(const Blobs& missing) const {
  int64_t needed = 0;
  for (const auto& [etag, copies] : missing) {
    const int64_t bytes = copies.front().bytes;
    if (cache_.HasBlob(copies.front())) continue;
    // A part of it is on the disk already, where another process began it.
    needed += bytes - std::min(BytesOnDisk(cache_.UnfinishedPath(etag)), bytes);
  }
  if (needed == 0) return OkStatus();
  ASSIGN_OR_RETURN(const int64_t free, FreeDiskBytes(cache_.folder()));
  if (free >= needed + kDiskReserveBytes) return OkStatus();
  return FailedPreconditionError(
      "fetching '" + name_.repo + "' takes " + std::to_string(needed >> 20) +
      " MiB, and the disk " + "of " + settings_.cache + " has " + std::to_string(free >> 20) +
      " MiB free; make room, or set HF_HUB_CACHE to a folder on another disk");
}

Result<DownloadedFile> SnapshotFetch::Prepare(const HubFile& file, bool has_lock) const {
  PartFileOrder order{.path = cache_.BlobPath(file.etag()),
                      // Without locks two processes must not write one file.
                      .unfinished_path = cache_.UnfinishedPath(file.etag(), /*own=*/!has_lock),
                      .bytes = file.bytes,
                      .kind = file.lfs_sha256.empty() ? DigestKind::kGitSha1 : DigestKind::kSha256,
                      .digest = file.etag(),
                      .adopts = has_lock && !LockScope().empty(),
                      .part_bytes = options_.part_bytes};
  DownloadedFile download;
  download.name = name_.repo + "/" + file.path;
  download.order = client_.FileOrder(name_.repo, commit_, file.path);
  ASSIGN_OR_RETURN(download.file, PartFile::Open(std::move(order)));
  return download;
}

Status SnapshotFetch::Link(const Blobs& group) const {
  for (const auto& [etag, copies] : group) {
    for (const HubFile& file : copies) {
      if (file.path != last_) RETURN_IF_ERROR(cache_.Link(commit_, file));
    }
  }
  return OkStatus();
}

Status SnapshotFetch::Fetch(const HubTree& files) {
  Blobs missing;
  int64_t total_bytes = 0;
  for (const HubFile& file : files) {
    if (cache_.HasFile(commit_, file)) continue;
    missing[file.etag()].push_back(file);
    total_bytes += file.bytes;
  }
  if (!missing.empty()) RETURN_IF_ERROR(prepared_);
  RETURN_IF_ERROR(CheckRoom(missing));
  int64_t done_bytes = 0;
  for (auto it = missing.begin(); it != missing.end();) {
    Blobs group;
    int64_t group_bytes = 0;
    for (; it != missing.end() && group.size() < kFilesAtOnce; ++it) {
      group.insert(*it);
      for (const HubFile& file : it->second) group_bytes += file.bytes;
    }
    RETURN_IF_ERROR(FetchGroup(group, done_bytes, total_bytes));
    done_bytes += group_bytes;
  }
  for (const HubFile& file : files) {
    if (file.path != last_) RETURN_IF_ERROR(CheckLinked(file));
  }
  return OkStatus();
}

Status SnapshotFetch::CheckLinked(const HubFile& file) const {
  if (cache_.HasFile(commit_, file)) return OkStatus();
  return UnavailableError("'" + name_.repo + "': " + file.path +
                          " was removed from the cache while it was fetched; fetch it again");
}

Status SnapshotFetch::FetchGroup(const Blobs& group, int64_t done_bytes, int64_t total_bytes) {
  std::vector<std::optional<FileLock>> locks;
  std::vector<std::pair<HubFile, bool>> to_fetch;
  for (const auto& [etag, copies] : group) {
    ASSIGN_OR_RETURN(std::optional<FileLock> lock,
                     cache_.LockBlob(etag, options_.web.is_cancelled));
    if (!cache_.HasBlob(copies.front())) to_fetch.emplace_back(copies.front(), lock.has_value());
    // Until there is a link: RemoveHubSnapshot takes it before it removes what has none.
    locks.push_back(std::move(lock));
  }
  std::vector<DownloadedFile> downloads;
  for (const auto& [file, has_lock] : to_fetch) {
    ASSIGN_OR_RETURN(DownloadedFile download, Prepare(file, has_lock));
    fetched_bytes_ += file.bytes;
    downloads.push_back(std::move(download));
  }
  DownloadOptions options = options_;
  if (options_.on_progress) {
    options.on_progress = [&](int64_t done, int64_t /*of_group*/) {
      options_.on_progress(std::min(done_bytes + done, total_bytes), total_bytes);
    };
  }
  const Status downloaded = DownloadAll(std::move(downloads), options);
  if (downloaded.code() == StatusCode::kPermissionDenied) {
    // The listing of a gated repository is open to all: its files say what to do.
    RETURN_IF_ERROR(client_.CheckAccess(name_.repo, commit_, to_fetch.front().first.path));
  }
  RETURN_IF_ERROR(downloaded);
  return Link(group);
}

// What clients, and Graft offline, know of a snapshot besides its files.
Status SnapshotFetch::Note(const HubTree& tree, HubKind kind, bool is_all) const {
  RETURN_IF_ERROR(cache_.WriteRef(name_.revision, commit_));
  if (is_all) RETURN_IF_ERROR(cache_.WriteTree(commit_, tree));
  std::set<std::string> listed;
  for (const HubFile& file : tree) listed.insert(file.path);
  for (const std::string& path : OptionalHubFiles(kind)) {
    if (!listed.contains(path)) RETURN_IF_ERROR(cache_.MarkMissing(commit_, path));
  }
  return OkStatus();
}

Result<HubSnapshot> SnapshotFetch::Run(const std::string& commit, HubKind wanted) {
  commit_ = commit;
  ASSIGN_OR_RETURN(const HubTree tree, client_.ListFiles(name_.repo, commit));
  const HubKind kind = KindOfTree(tree, wanted);
  Result<HubTree> chosen = ChooseHubFiles(tree, kind);
  if (!chosen.ok()) return chosen.status().WithContext("'" + name_.repo + "'");
  RETURN_IF_ERROR(CheckBytes(*chosen, options_.bytes_max));
  prepared_ = cache_.Prepare();
  size_t num_chosen = chosen->size();
  last_ = ConfigOf(*chosen, kind);
  RETURN_IF_ERROR(Fetch(*chosen));
  const std::string folder = cache_.SnapshotPath(commit);
  if (kind == HubKind::kModel && HasShards(*chosen)) {
    ASSIGN_OR_RETURN(const std::string index,
                     ReadFile(folder + "/model.safetensors.index.json", kHubIndexBytesMax));
    Result<HubTree> shards = ShardsOfIndex(tree, index);
    if (!shards.ok()) return shards.status().WithContext("'" + name_.repo + "'");
    RETURN_IF_ERROR(Fetch(*shards));
    num_chosen += shards->size();
  }
  for (const HubFile& file : *chosen) {
    if (file.path != last_) continue;
    RETURN_IF_ERROR(cache_.Link(commit, file));
    RETURN_IF_ERROR(CheckLinked(file));
  }
  const Status noted = Note(tree, kind, num_chosen == tree.size());
  if (!noted.ok()) LOG_WARN("'{}' is whole, and not all is noted: {}", name_.repo, noted.message());
  return HubSnapshot{
      .path = folder, .commit = commit, .kind = kind, .fetched_bytes = fetched_bytes_};
}

// A client that keeps listings fetches files one by one: its snapshot is whole where all are there
// that are read. Without a listing, the config says so.
Status CheckByTree(const HubCache& cache, const std::string& commit, HubKind wanted) {
  const Result<HubTree> tree = cache.ReadTree(commit);
  if (!tree.ok()) return OkStatus();
  const Result<HubTree> chosen = ChooseHubFiles(*tree, KindOfTree(*tree, wanted));
  if (!chosen.ok()) return NotFoundError(chosen.status().message());
  for (const HubFile& file : *chosen) {
    if (!cache.HasFile(commit, file)) {
      return NotFoundError(cache.SnapshotPath(commit) + " has no " + file.path);
    }
  }
  return OkStatus();
}

}  // namespace

Result<HubSnapshot> FindInHubCache(const HubSettings& settings, const HubName& name, HubKind kind) {
  const HubCache cache(settings.cache, name.repo);
  const Result<std::string> commit = cache.CommitOf(name.revision);
  const std::string what = "'" + name.repo + "' at revision '" + name.revision + "'";
  if (!commit.ok()) {
    return NotFoundError(what + " is not in the hub's cache, " + settings.cache);
  }
  const std::string folder = cache.SnapshotPath(*commit);
  Status complete = CheckHubFolder(folder, kind);
  if (complete.ok()) complete = CheckByTree(cache, *commit, kind);
  if (!complete.ok()) {
    return NotFoundError(what + " is not complete in the hub's cache: " + complete.message());
  }
  return HubSnapshot{.path = folder, .commit = *commit, .kind = kind};
}

Result<HubSnapshot> FetchFromHub(const HubSettings& settings, const HubName& name, HubKind kind,
                                 DownloadOptions options) {
  const Result<HubSnapshot> known = FindInHubCache(settings, name, kind);
  if (settings.is_offline) {
    if (known.ok()) return known;
    return NotFoundError(known.status().message() + ", and HF_HUB_OFFLINE says not to ask for it");
  }
  options.web.reachable = ReachableAddresses::Beside(settings.endpoint.host);
  WebPatienceOptions patience = options.patience;
  if (known.ok()) patience.tries_max = std::min(patience.tries_max, kTriesBesideACache);
  HubClient client(settings, options.web, patience);
  Result<std::string> commit =
      IsCommit(name.revision) ? name.revision : client.CommitOf(name.repo, name.revision);
  const Result<HubSnapshot> snapshot =
      commit.ok() ? SnapshotFetch(settings, name, client, options).Run(*commit, kind)
                  : Result<HubSnapshot>(commit.status());
  const bool is_away = snapshot.status().code() == StatusCode::kUnavailable;
  if (!is_away || !known.ok()) return snapshot;
  LOG_WARN("{}; '{}' is taken as the cache has it, at commit {}", snapshot.status().message(),
           name.repo, known->commit);
  return known;
}

}  // namespace graft
