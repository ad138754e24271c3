#include "sources/hub_cache.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <set>
#include <utility>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/log.h"
#include "base/new_file.h"
#include "base/random.h"
#include "base/strings.h"
#include "sources/hub_names.h"
#include "sources/part_file.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

// Before it, each of the client's processes has eight digits of its own.
constexpr char kUnfinished[] = ".incomplete";
constexpr int64_t kTreeBytesMax = 64 << 20;
constexpr char kCacheTag[] =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This file is a cache directory tag created by huggingface_hub.\n"
    "# For information about cache directory tags, see:\n"
    "#\thttps://bford.info/cachedir/\n";
constexpr int64_t kRefBytesMax = 256;
constexpr int64_t kLockPieceNs = 200'000'000;
constexpr mode_t kLockMode = 0664;

// The ending of a text on its way to its place: no other process or thread writes one of this name,
// also where all processes have one number.
std::string UniqueEnding() { return RandomName(".") + ".new"; }

Status MakeFolders(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? SystemError(error.value(), "cannot make " + path.string()) : OkStatus();
}

// The blobs that the snapshots of a repository's folder lead to.
Result<std::set<fs::path>> LinkedBlobs(const fs::path& repo) {
  std::set<fs::path> linked;
  std::error_code error;
  for (fs::recursive_directory_iterator it(repo / "snapshots", error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code unknown;
    if (it->is_symlink(unknown)) linked.insert(fs::read_symlink(it->path(), unknown).filename());
  }
  if (error) return SystemError(error.value(), "cannot list " + repo.string());
  return linked;
}

// A fetch links a blob that it finds while it has the blob's lock, so a link cannot come between.
// What is locked is about to get one, and stays.
Status RemoveUnlinkedBlob(const fs::path& repo, const fs::path& blob) {
  const fs::path locks = repo.parent_path() / ".locks" / repo.filename();
  const Result<FileLock> lock =
      FileLock::Take((locks / blob.filename()).string() + ".lock", /*wait_ns=*/0, kLockMode);
  // No folder of locks, no locks in the file system, or no right to them: as without any.
  if (lock.status().code() == StatusCode::kUnavailable) return OkStatus();
  ASSIGN_OR_RETURN(const std::set<fs::path> linked, LinkedBlobs(repo));
  std::error_code unknown;
  if (!linked.contains(blob.filename())) fs::remove(blob, unknown);
  return OkStatus();
}

bool HasBytes(const std::string& path, int64_t bytes) {
  const Result<FileStamp> stamp = StampFile(path);
  return stamp.ok() && stamp->bytes == bytes;
}

}  // namespace

HubCache::HubCache(std::string cache, std::string repo)
    : cache_(std::move(cache)),
      folder_(cache_ + "/" + HubRepoFolder(repo)),
      locks_(cache_ + "/.locks/" + HubRepoFolder(repo)) {}

std::string HubCache::SnapshotPath(const std::string& commit) const {
  return folder_ + "/snapshots/" + commit;
}

std::string HubCache::BlobPath(const std::string& etag) const { return folder_ + "/blobs/" + etag; }

std::string HubCache::UnfinishedPath(const std::string& etag, bool own) const {
  static const std::string scope = LockScope();
  const bool is_shared = !own && !scope.empty();
  return BlobPath(etag) + (is_shared ? "." + scope : RandomName(".")) + kUnfinished;
}

Status HubCache::Prepare() const {
  for (const char* const name : {"/blobs", "/refs", "/snapshots"}) {
    RETURN_IF_ERROR(MakeFolders(folder_ + name));
  }
  RETURN_IF_ERROR(MakeFolders(locks_));
  RemoveStaleParts(folder_ + "/blobs", "." + LockScope() + kUnfinished);
  const std::string tag = cache_ + "/CACHEDIR.TAG";
  return FileExists(tag) ? OkStatus() : WriteWholeFile(tag, kCacheTag, 0644, UniqueEnding());
}

Result<std::optional<FileLock>> HubCache::LockBlob(const std::string& etag,
                                                   const std::atomic<bool>* is_cancelled) const {
  const std::string path = locks_ + "/" + etag + ".lock";
  for (int tries = 0;; ++tries) {
    Result<FileLock> lock = FileLock::Take(path, kLockPieceNs, kLockMode);
    if (lock.ok()) return std::optional<FileLock>(*std::move(lock));
    if (lock.status().code() == StatusCode::kUnimplemented) return std::optional<FileLock>();
    if (lock.status().code() != StatusCode::kUnavailable || !FileExists(path)) {
      return lock.status();
    }
    if (is_cancelled != nullptr && is_cancelled->load()) {
      return CancelledError("the fetch was cancelled");
    }
    if (tries == 5) LOG_INFO("another program fetches {}; waiting for it", BlobPath(etag));
  }
}

bool HubCache::HasBlob(const HubFile& file) const {
  return HasBytes(BlobPath(file.etag()), file.bytes);
}

bool HubCache::HasFile(const std::string& commit, const HubFile& file) const {
  return HasBytes(SnapshotPath(commit) + "/" + file.path, file.bytes);
}

Status HubCache::Link(const std::string& commit, const HubFile& file) const {
  const std::string path = SnapshotPath(commit) + "/" + file.path;
  RETURN_IF_ERROR(MakeFolders(fs::path(path).parent_path()));
  std::string target = "../../blobs/" + file.etag();
  for (const char c : file.path) {
    if (c == '/') target.insert(0, "../");
  }
  if (symlink(target.c_str(), path.c_str()) == 0) return OkStatus();
  int error_number = errno;
  if (error_number == EEXIST && HasFile(commit, file)) return OkStatus();
  if (error_number == EEXIST) {
    // It leads to what is no longer there.
    const std::string beside = UnfinishedPath(file.etag(), /*own=*/true) + ".link";
    if (symlink(target.c_str(), beside.c_str()) == 0 && rename(beside.c_str(), path.c_str()) == 0) {
      return OkStatus();
    }
    error_number = errno;
  }
  if (error_number == EPERM || error_number == EOPNOTSUPP || error_number == ENOSYS) {
    return CopyWholeFile(BlobPath(file.etag()), path, 0644);  // a file system without links
  }
  return SystemError(error_number, "cannot link " + path);
}

Result<std::string> HubCache::CommitOf(const std::string& revision) const {
  if (IsCommit(revision)) return revision;
  const Result<std::string> text = ReadFile(folder_ + "/refs/" + revision, kRefBytesMax);
  if (!text.ok()) return text.status();
  const std::string commit(Trimmed(*text, " \t\r\n"));
  if (!IsCommit(commit)) return DataLossError(folder_ + "/refs/" + revision + " holds no commit");
  return commit;
}

Status HubCache::Replace(const std::string& path, const std::string& text, mode_t mode) const {
  RETURN_IF_ERROR(MakeFolders(fs::path(path).parent_path()));
  // Beside the blobs: a client takes every file in refs/ for a revision.
  const std::string beside = UnfinishedPath("text", /*own=*/true);
  RETURN_IF_ERROR(WriteWholeFile(beside, text, mode));
  if (rename(beside.c_str(), path.c_str()) == 0) return OkStatus();
  const int error_number = errno;
  unlink(beside.c_str());
  return SystemError(error_number, "cannot write " + path);
}

Status HubCache::WriteRef(const std::string& revision, const std::string& commit) const {
  if (IsCommit(revision)) return OkStatus();
  const Result<std::string> known = CommitOf(revision);
  if (known.ok() && *known == commit) return OkStatus();
  return Replace(folder_ + "/refs/" + revision, commit, 0644);
}

Status HubCache::MarkMissing(const std::string& commit, const std::string& path) const {
  const std::string mark = folder_ + "/.no_exist/" + commit + "/" + path;
  return FileExists(mark) ? OkStatus() : Replace(mark, "", 0644);
}

Status HubCache::WriteTree(const std::string& commit, const HubTree& tree) const {
  Json files = Json::object();
  for (const HubFile& file : tree) {
    Json& row = files[file.path];
    row = {{"size", file.bytes}, {"blob_id", file.blob_id}};
    if (file.lfs_sha256.empty()) continue;
    row["lfs_sha256"] = file.lfs_sha256;
    row["lfs_size"] = file.bytes;
  }
  const Json json = {{"format_version", 1}, {"files", std::move(files)}};
  return Replace(folder_ + "/trees/" + commit + ".json", DumpJson(json), 0600);
}

Result<HubTree> HubCache::ReadTree(const std::string& commit) const {
  const std::string path = folder_ + "/trees/" + commit + ".json";
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kTreeBytesMax));
  const Result<Json> json = ParseJson(text);
  const bool has_files =
      json.ok() && json->is_object() && json->contains("files") && (*json)["files"].is_object();
  if (!has_files) return DataLossError(path + " is no listing");
  HubTree tree;
  for (const auto& [name, row] : (*json)["files"].items()) {
    HubFile file{.path = name};
    if (!IsSafeHubPath(name) || !row.is_object()) return DataLossError(path + " is no listing");
    ReadField(row, "size", &file.bytes);
    ReadField(row, "blob_id", &file.blob_id);
    ReadField(row, "lfs_sha256", &file.lfs_sha256);
    if (!file.lfs_sha256.empty()) ReadField(row, "lfs_size", &file.bytes);
    tree.push_back(std::move(file));
  }
  return tree;
}

int64_t FolderBytes(const std::string& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    std::error_code unknown;
    if (!it->is_regular_file(unknown)) continue;
    const uintmax_t size = it->file_size(unknown);
    if (!unknown) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

Status RemoveHubSnapshot(const std::string& snapshot) {
  const fs::path repo = fs::path(snapshot).parent_path().parent_path();
  const std::string commit = fs::path(snapshot).filename().string();
  if (!IsCommit(commit) || fs::path(snapshot).parent_path().filename() != "snapshots") {
    return InvalidArgumentError(snapshot + " is no snapshot of a hub's cache");
  }
  std::error_code error;
  for (fs::recursive_directory_iterator it(repo / "refs", error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const Result<std::string> text = ReadFile(it->path().string(), kRefBytesMax);
    std::error_code unknown;
    if (text.ok() && Trimmed(*text, " \r\n") == commit) fs::remove(it->path(), unknown);
  }
  fs::remove_all(snapshot, error);
  if (error) return SystemError(error.value(), "cannot remove " + snapshot);
  fs::remove(repo / "trees" / (commit + ".json"), error);
  fs::remove_all(repo / ".no_exist" / commit, error);
  ASSIGN_OR_RETURN(const std::set<fs::path> used, LinkedBlobs(repo));
  for (const fs::directory_entry& blob : fs::directory_iterator(repo / "blobs", error)) {
    const std::string name = blob.path().filename().string();
    const bool is_blob = name.find('.') == std::string::npos;  // else it is on its way
    if (is_blob && !used.contains(name)) RETURN_IF_ERROR(RemoveUnlinkedBlob(repo, blob.path()));
  }
  return OkStatus();
}

}  // namespace graft
