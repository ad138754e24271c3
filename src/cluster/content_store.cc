#include "cluster/content_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sha256.h"
#include "rpc/adapter_client.h"
#include "rpc/adapter_service.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

// Held by one process of the machine, and one thread of it.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path)
      : fd_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    while (fd_ >= 0 && flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() {
    if (fd_ >= 0) close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  bool ok() const { return fd_ >= 0; }

 private:
  const int fd_;
};

Status CopyToDisk(const std::string& from, const std::string& to) {
  std::error_code error;
  if (!fs::is_regular_file(from, error)) return NotFoundError(from + " is no file");
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  if (error) return SystemError(error.value(), "cannot copy an adapter");
  const int fd = open(to.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = fd >= 0 && fsync(fd) == 0;
  const int error_number = errno;
  if (fd >= 0) close(fd);
  return synced ? OkStatus() : SystemError(error_number, "cannot keep an adapter");
}

// Those of the files that are there.
template <typename Files>
Status CopyThose(const Files& files, const std::string& from, const std::string& to) {
  for (const char* const file : files) {
    const std::string path = AdapterFilePath(from, file);
    if (!FileExists(path)) continue;
    std::error_code error;
    fs::create_directories(fs::path(to + "/" + file).parent_path(), error);
    if (error) return SystemError(error.value(), "cannot write in the adapters' store");
    RETURN_IF_ERROR(CopyToDisk(path, to + "/" + file));
  }
  return OkStatus();
}

}  // namespace

ContentStore::ContentStore(std::string root, TlsFiles tls, HashFolder hash_folder)
    : root_(std::move(root)), tls_(std::move(tls)), hash_folder_(std::move(hash_folder)) {}

Result<ContentStore> ContentStore::Open(const std::string& root, TlsFiles tls,
                                        HashFolder hash_folder) {
  std::error_code error;
  const fs::path absolute = fs::absolute(root, error);
  for (const char* part : {"contents", "fetching"}) {
    fs::create_directories(absolute / part, error);
    if (error) return SystemError(error.value(), "cannot make the folder " + root);
  }
  return ContentStore(absolute.string(), std::move(tls), std::move(hash_folder));
}

Result<std::string> ContentStore::Find(const std::string& hash) const {
  // It names a folder, and must not name another place.
  if (!IsSha256(hash)) return InvalidArgumentError("'" + hash + "' is no content hash");
  std::string place = contents() + "/" + hash;
  std::error_code error;
  fs::last_write_time(place, fs::file_time_type::clock::now(), error);  // it is in use
  if (!error) return place;
  return NotFoundError("the store has no adapter of content " + hash);
}

Result<std::string> ContentStore::Get(const std::string& hash,
                                      const std::vector<std::string>& peers) const {
  return Make(hash, hash,
              [&](const std::string& folder) { return FetchInto(hash, peers, folder); });
}

Result<std::string> ContentStore::Keep(const std::string& hash, const std::string& folder) const {
  return Make(hash, hash + ".copy", [&](const std::string& copy) -> Status {
    std::error_code error;
    fs::remove_all(copy, error);
    fs::create_directories(copy, error);
    if (error) return SystemError(error.value(), "cannot write in the adapters' store");
    const bool is_bundle =
        !FileExists(folder + "/" + kPeftFiles[0]) && FileExists(folder + "/" + kBundleManifest);
    if (is_bundle) {
      RETURN_IF_ERROR(CopyThose(kBundleFiles, folder, copy));
    } else {
      for (const char* const file : kPeftFiles) {
        RETURN_IF_ERROR(CopyToDisk(AdapterFilePath(folder, file), copy + "/" + file));
      }
    }
    RETURN_IF_ERROR(CopyThose(kAdapterTextFiles, folder, copy));
    ASSIGN_OR_RETURN(const bool is_it, MakeContent(hash, copy));
    if (is_it) return OkStatus();
    fs::remove_all(copy, error);
    return DataLossError(folder + " has other content");
  });
}

Result<bool> ContentStore::MakeContent(const std::string& hash, const std::string& folder) const {
  ASSIGN_OR_RETURN(std::string found, hash_folder_(folder));
  if (found == hash) return true;
  bool had_texts = false;
  for (const char* const file : kAdapterTextFiles) {
    std::error_code error;
    had_texts |= fs::remove(folder + "/" + file, error);
  }
  if (!had_texts) return false;
  ASSIGN_OR_RETURN(found, hash_folder_(folder));
  return found == hash;
}

Result<std::string> ContentStore::Make(const std::string& hash, const std::string& part,
                                       const Fill& fill) const {
  Result<std::string> found = Find(hash);
  if (found.status().code() != StatusCode::kNotFound) return found;
  const std::string place = contents() + "/" + hash;
  const std::string folder = root_ + "/fetching/" + part;
  const std::string lock_path = root_ + "/fetching/" + hash + ".lock";
  const FolderLock lock(lock_path);
  if (!lock.ok()) return SystemError(errno, "cannot write in the adapters' store");
  if (FileExists(place)) return place;  // another process fetched it meanwhile
  RETURN_IF_ERROR(fill(folder));
  std::error_code error;
  fs::rename(folder, place, error);
  if (error) return SystemError(error.value(), "cannot keep an adapter");
  fs::remove(lock_path, error);
  return place;
}

int ContentStore::Sweep(const std::set<std::string>& wanted, std::chrono::seconds grace) const {
  const auto now = fs::file_time_type::clock::now();
  std::error_code error;
  std::vector<fs::path> unwanted;
  for (const auto& entry : fs::directory_iterator(contents(), error)) {
    if (wanted.contains(entry.path().filename().string())) {
      fs::last_write_time(entry.path(), now, error);  // seen by other processes' sweeps
    } else if (const auto touched = fs::last_write_time(entry.path(), error);
               !error && now - touched > grace) {
      unwanted.push_back(entry.path());
    }
  }
  int num_removed = 0;
  for (const fs::path& path : unwanted) {
    // The rename removes it in one piece: readers find all of it or nothing.
    const fs::path gone = root_ + "/fetching/" + path.filename().string() + ".gone";
    fs::rename(path, gone, error);
    if (error) continue;
    fs::remove_all(gone, error);
    ++num_removed;
  }
  return num_removed;
}

Status ContentStore::FetchInto(const std::string& hash, const std::vector<std::string>& peers,
                               const std::string& folder) const {
  std::error_code error;
  Status last = NotFoundError("no machine of the cluster has the adapter's content");
  for (const std::string& peer : peers) {
    fs::create_directories(folder, error);
    if (error) return SystemError(error.value(), "cannot write in the adapters' store");
    ASSIGN_OR_RETURN(const auto client, AdapterClient::Make(peer, tls_));
    const Status fetched = client->Fetch(hash, folder);
    if (fetched.ok()) {
      const Result<bool> is_it = MakeContent(hash, folder);
      if (is_it.ok() && *is_it) {
        LOG_INFO("adapter {:.12} was fetched from {}", hash, peer);
        return OkStatus();
      }
      last = DataLossError(peer + " has other content than it says");
    } else if (fetched.code() != StatusCode::kNotFound) {
      last = fetched;
    }
    // What broke off is gone on with; what is wrong is begun anew.
    if (!IsPassing(last)) fs::remove_all(folder, error);
  }
  return last;
}

}  // namespace graft
