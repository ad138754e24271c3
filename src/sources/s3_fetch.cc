#include "sources/s3_fetch.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "base/log.h"
#include "base/new_file.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "sources/hub_names.h"

namespace graft {
namespace {

namespace s3fs = std::filesystem;

constexpr char kIncomplete[] = ".incomplete";
constexpr char kCurrent[] = "/current";
constexpr size_t kVersionDigits = 40;
constexpr int64_t kS3LockPieceNs = 200'000'000;
constexpr int64_t kS3IndexBytesMax = 64 << 20;
constexpr int64_t kS3DiskReserveBytes = 32 << 20;

Status MakeFolder(const s3fs::path& path) {
  std::error_code error;
  s3fs::create_directories(path, error);
  return error ? SystemError(error.value(), "cannot make " + path.string()) : OkStatus();
}

// Objects by their path below the prefix. What is no path of a file here is no file of a model.
std::map<std::string, S3Object> ByPath(const S3Name& name, std::vector<S3Object> objects) {
  std::map<std::string, S3Object> by_path;
  const size_t cut = name.prefix.empty() ? 0 : name.prefix.size() + 1;
  for (S3Object& object : objects) {
    if (object.key.size() <= cut || object.key.compare(0, cut, name.prefix + "/", 0, cut) != 0) {
      continue;
    }
    const std::string path = object.key.substr(cut);
    if (IsSafeHubPath(path)) by_path[path] = std::move(object);
  }
  return by_path;
}

HubTree TreeOf(const std::map<std::string, S3Object>& objects) {
  HubTree tree;
  for (const auto& [path, object] : objects) {
    tree.push_back({.path = path, .bytes = object.bytes, .blob_id = object.etag});
  }
  return tree;
}

// One level, since a prefix may lie in another. A long one is cut and told apart by its digest.
std::string FolderOfPrefix(const std::string& prefix) {
  constexpr size_t kBytesMax = 160;
  const std::string encoded = prefix.empty() ? "_" : PercentEncode(prefix);
  if (encoded.size() <= kBytesMax) return encoded;
  return encoded.substr(0, kBytesMax) + "_" + Sha256Of(prefix).substr(0, 32);
}

class S3Fetch {
 public:
  S3Fetch(const S3Settings& settings, const S3Name& name, S3Client& client,
          const DownloadOptions& options)
      : settings_(settings), name_(name), client_(client), options_(options) {
    const std::string store =
        settings.endpoint.has_value()
            ? PercentEncode(settings.endpoint->host) + "_" + std::to_string(settings.endpoint->port)
            : "aws";
    folder_ = settings.cache + "/" + store + "/" + name.bucket;
    folder_ += "/" + FolderOfPrefix(name.prefix);
  }

  Result<S3Snapshot> FindCurrent(HubKind kind) const;
  // What the store has now, without fetching it.
  Result<S3Snapshot> Look(HubKind kind);
  Result<S3Snapshot> Run(HubKind kind);

 private:
  std::string VersionOf(const HubTree& chosen) const;
  Result<FileLock> Lock(const std::string& version) const;
  Status Fill(const std::string& folder, HubKind kind);
  Status Fetch(const std::string& folder, const HubTree& files);
  Result<std::optional<DownloadedFile>> Prepare(const std::string& folder, const HubFile& file);

  const S3Settings& settings_;
  const S3Name& name_;
  S3Client& client_;
  const DownloadOptions& options_;
  std::string folder_;
  std::map<std::string, S3Object> objects_;
  HubTree tree_;
  HubTree chosen_;
  int64_t fetched_bytes_ = 0;
};

Result<S3Snapshot> S3Fetch::FindCurrent(HubKind kind) const {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(folder_ + kCurrent, 256));
  const std::string version(Trimmed(text, " \n"));
  if (!IsCommit(version)) return DataLossError(folder_ + kCurrent + " names no version");
  const std::string path = folder_ + "/" + version;
  RETURN_IF_ERROR(CheckHubFolder(path, kind));
  return S3Snapshot{.path = path, .version = version, .kind = kind};
}

// Files that belong to the model by their names, and all shards that may.
std::string S3Fetch::VersionOf(const HubTree& chosen) const {
  Sha256 hash;
  const auto add = [&](const HubFile& file) {
    hash.Update(file.path + "\n" + std::to_string(file.bytes) + "\n" + file.blob_id + "\n");
  };
  for (const HubFile& file : chosen) add(file);
  for (const HubFile& file : tree_) {
    const bool is_shard =
        file.path.ends_with(".safetensors") && file.path.find('/') == std::string::npos;
    if (HasShards(chosen) && is_shard) add(file);
  }
  return hash.HexDigest().substr(0, kVersionDigits);
}

Result<FileLock> S3Fetch::Lock(const std::string& version) const {
  const std::string path = folder_ + "/" + version + ".lock";
  for (;;) {
    Result<FileLock> lock = FileLock::Take(path, kS3LockPieceNs);
    if (lock.ok() || lock.status().code() != StatusCode::kUnavailable || !FileExists(path)) {
      return lock;
    }
    if (options_.web.is_cancelled != nullptr && options_.web.is_cancelled->load()) {
      return CancelledError("the fetch was cancelled");
    }
  }
}

// None where an earlier process has put it there.
Result<std::optional<DownloadedFile>> S3Fetch::Prepare(const std::string& folder,
                                                       const HubFile& file) {
  const std::string path = folder + "/" + file.path;
  RETURN_IF_ERROR(MakeFolder(s3fs::path(path).parent_path()));
  const Result<FileStamp> stamp = StampFile(path);
  if (stamp.ok() && stamp->bytes == file.bytes) return std::optional<DownloadedFile>();
  const S3Object& object = objects_.at(file.path);
  ASSIGN_OR_RETURN(const S3Head head, client_.Head(name_.bucket, object.key));
  if (head.etag != object.etag || head.bytes != object.bytes) {
    return Status(StatusCode::kAborted, "s3://" + name_.bucket + "/" + object.key +
                                            " was replaced meanwhile; fetch it again");
  }
  DownloadedFile download;
  download.name = "s3://" + name_.bucket + "/" + object.key;
  download.order = client_.ObjectOrder(name_.bucket, object.key, head);
  ASSIGN_OR_RETURN(download.file, PartFile::Open({.path = path,
                                                  .unfinished_path = path + kIncomplete,
                                                  .bytes = file.bytes,
                                                  .kind = head.kind,
                                                  .digest = head.digest,
                                                  .adopts = head.kind != DigestKind::kNone,
                                                  .part_bytes = options_.part_bytes}));
  fetched_bytes_ += file.bytes;
  return std::optional<DownloadedFile>(std::move(download));
}

Status S3Fetch::Fetch(const std::string& folder, const HubTree& files) {
  int64_t needed = kS3DiskReserveBytes;
  for (const HubFile& file : files) needed += file.bytes;
  ASSIGN_OR_RETURN(const int64_t free, FreeDiskBytes(folder));
  if (free < needed) {
    return FailedPreconditionError(
        "fetching s3://" + name_.bucket + "/" + name_.prefix + " takes " +
        std::to_string(needed >> 20) + " MiB, and the disk of " + settings_.cache + " has " +
        std::to_string(free >> 20) + " MiB free; make room, or set XDG_CACHE_HOME to another disk");
  }
  std::vector<DownloadedFile> downloads;
  for (const HubFile& file : files) {
    ASSIGN_OR_RETURN(std::optional<DownloadedFile> download, Prepare(folder, file));
    if (download.has_value()) downloads.push_back(*std::move(download));
  }
  return DownloadAll(std::move(downloads), options_);
}

Status S3Fetch::Fill(const std::string& folder, HubKind kind) {
  RETURN_IF_ERROR(MakeFolder(folder));
  RETURN_IF_ERROR(Fetch(folder, chosen_));
  if (kind != HubKind::kModel || !HasShards(chosen_)) return OkStatus();
  ASSIGN_OR_RETURN(const std::string index,
                   ReadFile(folder + "/model.safetensors.index.json", kS3IndexBytesMax));
  ASSIGN_OR_RETURN(const HubTree shards, ShardsOfIndex(tree_, index));
  return Fetch(folder, shards);
}

Result<S3Snapshot> S3Fetch::Look(HubKind wanted) {
  const std::string what = "s3://" + name_.bucket + "/" + name_.prefix;
  ASSIGN_OR_RETURN(std::vector<S3Object> objects, client_.List(name_));
  if (objects.empty()) return NotFoundError("there is nothing at " + what);
  objects_ = ByPath(name_, std::move(objects));
  tree_ = TreeOf(objects_);
  const HubKind kind = KindOfTree(tree_, wanted);
  Result<HubTree> chosen = ChooseHubFiles(tree_, kind);
  if (!chosen.ok()) return chosen.status().WithContext(what);
  chosen_ = *std::move(chosen);
  S3Snapshot snapshot{.version = VersionOf(chosen_), .kind = kind};
  snapshot.path = folder_ + "/" + snapshot.version;
  return snapshot;
}

Result<S3Snapshot> S3Fetch::Run(HubKind wanted) {
  ASSIGN_OR_RETURN(S3Snapshot snapshot, Look(wanted));
  RETURN_IF_ERROR(MakeFolder(folder_));
  if (!FileExists(snapshot.path)) {
    ASSIGN_OR_RETURN(const FileLock lock, Lock(snapshot.version));
    if (!FileExists(snapshot.path)) {
      const Status filled = Fill(snapshot.path + kIncomplete, snapshot.kind);
      if (!filled.ok()) return filled.WithContext("s3://" + name_.bucket + "/" + name_.prefix);
      std::error_code error;
      s3fs::rename(snapshot.path + kIncomplete, snapshot.path, error);
      if (error) return SystemError(error.value(), "cannot rename " + snapshot.path + kIncomplete);
    }
  }
  RETURN_IF_ERROR(WriteWholeFile(folder_ + kCurrent, snapshot.version, 0644,
                                 ".new" + std::to_string(gettid())));
  snapshot.fetched_bytes = fetched_bytes_;
  return snapshot;
}

void AllowEndpoint(const S3Settings& settings, DownloadOptions* options) {
  if (!settings.endpoint.has_value()) return;
  options->web.reachable = ReachableAddresses::Beside(settings.endpoint->host);
}

}  // namespace

Result<std::string> VersionInS3(const S3Settings& settings, const S3Name& name, HubKind kind,
                                DownloadOptions options) {
  AllowEndpoint(settings, &options);
  S3Client client(settings, options.web, options.patience);
  ASSIGN_OR_RETURN(S3Snapshot snapshot, S3Fetch(settings, name, client, options).Look(kind));
  return std::move(snapshot.version);
}

Result<S3Snapshot> FetchFromS3(const S3Settings& settings, const S3Name& name, HubKind kind,
                               DownloadOptions options) {
  AllowEndpoint(settings, &options);
  S3Client client(settings, options.web, options.patience);
  S3Fetch fetch(settings, name, client, options);
  const Result<S3Snapshot> known = fetch.FindCurrent(kind);
  const Result<S3Snapshot> snapshot = fetch.Run(kind);
  if (snapshot.status().code() != StatusCode::kUnavailable || !known.ok()) return snapshot;
  LOG_WARN("{}; {} is taken as the cache has it", snapshot.status().message(), known->path);
  return known;
}

}  // namespace graft
