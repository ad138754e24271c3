#include "sources/s3_fetch.h"

#include <algorithm>
#include <chrono>
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
#include "base/random.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "sources/hub_names.h"

namespace graft {
namespace {

namespace s3fs = std::filesystem;

constexpr char kIncomplete[] = ".incomplete";
constexpr char kCurrent[] = "/current";
constexpr int64_t kCurrentBytesMax = 256;
constexpr size_t kVersionDigits = 40;
constexpr int64_t kS3LockPieceNs = 200'000'000;
constexpr int64_t kS3IndexBytesMax = 64 << 20;
constexpr int64_t kS3DiskReserveBytes = 32 << 20;
constexpr std::chrono::hours kS3StaleAfter(24);

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

// What machines began that were gone before it was whole.
void RemoveStaleFolders(const std::string& folder) {
  std::error_code error;
  std::vector<s3fs::path> stale;
  const std::string own = "." + LockScope() + kIncomplete;
  const auto now = s3fs::file_time_type::clock::now();
  for (const s3fs::directory_entry& entry : s3fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(kIncomplete) || name.ends_with(own)) continue;
    auto written = entry.last_write_time(error);
    for (s3fs::recursive_directory_iterator it(entry.path(), error);
         !error && it != s3fs::recursive_directory_iterator(); it.increment(error)) {
      std::error_code unknown;
      const auto time = it->last_write_time(unknown);
      if (!unknown) written = std::max(written, time);
    }
    if (now - written > kS3StaleAfter) stale.push_back(entry.path());
  }
  for (const s3fs::path& path : stale) s3fs::remove_all(path, error);
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
  // None where the file system has no locks.
  Result<std::optional<FileLock>> Lock(const std::string& version) const;
  // Whether the version is there with all its files: other programs may have taken some away.
  bool IsWhole(const S3Snapshot& snapshot) const;
  Status FillAndName(const S3Snapshot& snapshot);
  Status Fill(const std::string& folder, HubKind kind);
  Status CheckRoom(const std::string& folder, const HubTree& files) const;
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
  Status unsuited_;  // why what is there is not read
  int64_t fetched_bytes_ = 0;
};

Result<S3Snapshot> S3Fetch::FindCurrent(HubKind kind) const {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(folder_ + kCurrent, kCurrentBytesMax));
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

Result<std::optional<FileLock>> S3Fetch::Lock(const std::string& version) const {
  const std::string path = folder_ + "/" + version + ".lock";
  for (;;) {
    Result<FileLock> lock = FileLock::Take(path, kS3LockPieceNs);
    if (lock.ok()) return std::optional<FileLock>(*std::move(lock));
    if (lock.status().code() == StatusCode::kUnimplemented) return std::optional<FileLock>();
    if (lock.status().code() != StatusCode::kUnavailable || !FileExists(path)) {
      return lock.status();
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

Status S3Fetch::CheckRoom(const std::string& folder, const HubTree& files) const {
  int64_t needed = 0;
  for (const HubFile& file : files) {
    // What an earlier process has fetched is on the disk already, whole or in parts.
    const std::string path = folder + "/" + file.path;
    const int64_t there = BytesOnDisk(path) + BytesOnDisk(path + kIncomplete);
    needed += file.bytes - std::min(there, file.bytes);
  }
  if (needed == 0) return OkStatus();
  ASSIGN_OR_RETURN(const int64_t free, FreeDiskBytes(folder));
  if (free >= needed + kS3DiskReserveBytes) return OkStatus();
  return FailedPreconditionError("fetching s3://" + name_.bucket + "/" + name_.prefix + " takes " +
                                 std::to_string(needed >> 20) + " MiB, and the disk of " +
                                 settings_.cache + " has " + std::to_string(free >> 20) +
                                 " MiB free; make room, or set XDG_CACHE_HOME to another disk");
}

Status S3Fetch::Fetch(const std::string& folder, const HubTree& files) {
  RETURN_IF_ERROR(CheckRoom(folder, files));
  int64_t total_bytes = 0;
  for (const HubFile& file : files) total_bytes += file.bytes;
  int64_t done_bytes = 0;
  for (size_t begin = 0; begin < files.size(); begin += kFilesAtOnce) {
    const size_t end = std::min(files.size(), begin + kFilesAtOnce);
    std::vector<DownloadedFile> downloads;
    int64_t group_bytes = 0;
    for (size_t i = begin; i < end; ++i) {
      ASSIGN_OR_RETURN(std::optional<DownloadedFile> download, Prepare(folder, files[i]));
      if (download.has_value()) {
        group_bytes += files[i].bytes;
        downloads.push_back(*std::move(download));
      } else {
        done_bytes += files[i].bytes;
      }
    }
    DownloadOptions options = options_;
    if (options_.on_progress) {
      options.on_progress = [&](int64_t done, int64_t /*of_group*/) {
        options_.on_progress(std::min(done_bytes + done, total_bytes), total_bytes);
      };
    }
    RETURN_IF_ERROR(DownloadAll(std::move(downloads), options));
    done_bytes += group_bytes;
  }
  return OkStatus();
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
  // What is no model and no adapter has a version all the same: that of all that is there.
  unsuited_ = chosen.ok() ? OkStatus() : chosen.status().WithContext(what);
  chosen_ = chosen.ok() ? *std::move(chosen) : tree_;
  S3Snapshot snapshot{.version = VersionOf(chosen_), .kind = kind};
  snapshot.path = folder_ + "/" + snapshot.version;
  return snapshot;
}

bool S3Fetch::IsWhole(const S3Snapshot& snapshot) const {
  const auto is_there = [&](const HubFile& file) {
    const Result<FileStamp> stamp = StampFile(snapshot.path + "/" + file.path);
    return stamp.ok() && stamp->bytes == file.bytes;
  };
  return CheckHubFolder(snapshot.path, snapshot.kind).ok() &&
         std::all_of(chosen_.begin(), chosen_.end(), is_there);
}

// Machines that share the folder may not see each other's locks: each fills one of its own, and the
// first to be done gives it its name.
Status S3Fetch::FillAndName(const S3Snapshot& snapshot) {
  ASSIGN_OR_RETURN(const std::optional<FileLock> lock, Lock(snapshot.version));
  if (IsWhole(snapshot)) return OkStatus();
  if (FileExists(snapshot.path)) RETURN_IF_ERROR(RemoveS3Version(snapshot.path));
  const std::string scope = lock.has_value() ? LockScope() : "";
  const std::string unfinished =
      snapshot.path + (scope.empty() ? RandomName(".") : "." + scope) + kIncomplete;
  std::error_code error;
  const Status filled = Fill(unfinished, snapshot.kind);
  if (!filled.ok() && scope.empty()) s3fs::remove_all(unfinished, error);  // no process finds it
  if (!filled.ok()) return filled.WithContext("s3://" + name_.bucket + "/" + name_.prefix);
  s3fs::rename(unfinished, snapshot.path, error);
  if (error && !FileExists(snapshot.path)) {
    return SystemError(error.value(), "cannot rename " + unfinished);
  }
  if (error) s3fs::remove_all(unfinished, error);
  return OkStatus();
}

Result<S3Snapshot> S3Fetch::Run(HubKind wanted) {
  ASSIGN_OR_RETURN(S3Snapshot snapshot, Look(wanted));
  RETURN_IF_ERROR(unsuited_);
  RETURN_IF_ERROR(CheckBytes(chosen_, options_.bytes_max));
  RETURN_IF_ERROR(MakeFolder(folder_));
  RemoveStaleFolders(folder_);
  if (!IsWhole(snapshot)) RETURN_IF_ERROR(FillAndName(snapshot));
  const Result<std::string> current = ReadFile(folder_ + kCurrent, kCurrentBytesMax);
  if (!current.ok() || *current != snapshot.version) {
    // No other process writes a text of this name, also where all processes have one number.
    RETURN_IF_ERROR(
        WriteWholeFile(folder_ + kCurrent, snapshot.version, 0644, RandomName(".") + ".new"));
  }
  snapshot.fetched_bytes = fetched_bytes_;
  return snapshot;
}

void AllowEndpoint(const S3Settings& settings, DownloadOptions* options) {
  if (!settings.endpoint.has_value()) return;
  options->web.reachable = ReachableAddresses::Beside(settings.endpoint->host);
}

}  // namespace

Status RemoveS3Version(const std::string& folder) {
  if (!IsCommit(s3fs::path(folder).filename().string())) {
    return InvalidArgumentError(folder + " is no version of a prefix");
  }
  const std::string leaving = folder + RandomName(".") + kIncomplete;
  std::error_code error;
  s3fs::rename(folder, leaving, error);
  if (error == std::errc::no_such_file_or_directory) return OkStatus();
  if (!error) s3fs::remove_all(leaving, error);
  return error ? SystemError(error.value(), "cannot remove " + folder) : OkStatus();
}

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
