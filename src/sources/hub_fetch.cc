#include "sources/hub_fetch.h"

#include <sys/stat.h>
#include <unistd.h>

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
  Status Fetch(const HubTree& files);
  Status CheckRoom(const HubTree& missing) const;
  Result<DownloadedFile> Prepare(const HubFile& file, bool has_lock) const;

  const HubSettings& settings_;
  const HubName& name_;
  HubClient& client_;
  const DownloadOptions& options_;
  const HubCache cache_;
  std::string commit_;
  int64_t fetched_bytes_ = 0;
};

// What is on the disk already of a file that another process began.
int64_t BytesOnDisk(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? int64_t{status.st_blocks} * 512 : 0;
}

Status SnapshotFetch::CheckRoom(const HubTree& missing) const {
  int64_t needed = 0;
  for (const HubFile& file : missing) {
    const int64_t there = BytesOnDisk(cache_.UnfinishedPath(file.etag()));
    needed += file.bytes - std::min(there, file.bytes);
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
                      .unfinished_path = cache_.UnfinishedPath(file.etag()),
                      .bytes = file.bytes,
                      .kind = file.lfs_sha256.empty() ? DigestKind::kGitSha1 : DigestKind::kSha256,
                      .digest = file.etag(),
                      .adopts = has_lock,
                      .part_bytes = options_.part_bytes};
  // Without locks two processes must not write one file.
  if (!has_lock) order.unfinished_path += "." + std::to_string(getpid());
  DownloadedFile download;
  download.name = name_.repo + "/" + file.path;
  download.order = client_.FileOrder(name_.repo, commit_, file.path);
  ASSIGN_OR_RETURN(download.file, PartFile::Open(std::move(order)));
  download.on_whole = [this, file] { return cache_.Link(commit_, file); };
  return download;
}

Status SnapshotFetch::Fetch(const HubTree& files) {
  // By etag: files of the same bytes are one blob, and all programs take locks in this order.
  std::map<std::string, std::vector<HubFile>> missing;
  for (const HubFile& file : files) {
    if (!cache_.HasFile(commit_, file)) missing[file.etag()].push_back(file);
  }
  std::vector<std::optional<FileLock>> locks;
  std::vector<std::pair<HubFile, bool>> to_fetch;
  HubTree sizes;
  for (const auto& [etag, copies] : missing) {
    ASSIGN_OR_RETURN(std::optional<FileLock> lock,
                     cache_.LockBlob(etag, options_.web.is_cancelled));
    if (cache_.HasBlob(copies.front())) {
      // While the lock is held: RemoveHubSnapshot takes it before it removes what has no link.
      for (const HubFile& file : copies) RETURN_IF_ERROR(cache_.Link(commit_, file));
      continue;
    }
    to_fetch.emplace_back(copies.front(), lock.has_value());
    sizes.push_back(copies.front());
    locks.push_back(std::move(lock));
  }
  RETURN_IF_ERROR(CheckRoom(sizes));
  std::vector<DownloadedFile> downloads;
  for (const auto& [file, has_lock] : to_fetch) {
    ASSIGN_OR_RETURN(DownloadedFile download, Prepare(file, has_lock));
    fetched_bytes_ += file.bytes;
    downloads.push_back(std::move(download));
  }
  const Status downloaded = DownloadAll(std::move(downloads), options_);
  if (downloaded.code() == StatusCode::kPermissionDenied) {
    // The listing of a gated repository is open to all: its files say what to do.
    RETURN_IF_ERROR(client_.CheckAccess(name_.repo, commit_, sizes.front().path));
  }
  RETURN_IF_ERROR(downloaded);
  for (const auto& [etag, copies] : missing) {
    for (const HubFile& file : copies) RETURN_IF_ERROR(cache_.Link(commit_, file));
  }
  for (const HubFile& file : files) {
    if (cache_.HasFile(commit_, file)) continue;
    return UnavailableError("'" + name_.repo + "': " + file.path +
                            " was removed from the cache while it was fetched; fetch it again");
  }
  return OkStatus();
}

Result<HubSnapshot> SnapshotFetch::Run(const std::string& commit, HubKind wanted) {
  commit_ = commit;
  ASSIGN_OR_RETURN(const HubTree tree, client_.ListFiles(name_.repo, commit));
  const HubKind kind = KindOfTree(tree, wanted);
  Result<HubTree> chosen = ChooseHubFiles(tree, kind);
  if (!chosen.ok()) return chosen.status().WithContext("'" + name_.repo + "'");
  RETURN_IF_ERROR(cache_.Prepare());
  size_t num_chosen = chosen->size();
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
  std::set<std::string> listed;
  for (const HubFile& file : tree) listed.insert(file.path);
  for (const std::string& path : OptionalHubFiles(kind)) {
    if (!listed.contains(path)) RETURN_IF_ERROR(cache_.MarkMissing(commit, path));
  }
  if (num_chosen == tree.size()) RETURN_IF_ERROR(cache_.WriteTree(commit, tree));
  RETURN_IF_ERROR(cache_.WriteRef(name_.revision, commit));
  return HubSnapshot{
      .path = folder, .commit = commit, .kind = kind, .fetched_bytes = fetched_bytes_};
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
  const Status complete = CheckHubFolder(folder, kind);
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
