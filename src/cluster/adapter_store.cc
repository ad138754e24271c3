#include "cluster/adapter_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "rpc/adapter_client.h"

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

// A hash names a folder: it must not name another place.
bool IsContentHash(const std::string& hash) {
  return hash.size() == 64 && std::all_of(hash.begin(), hash.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

AdapterStore::AdapterStore(std::string root, TlsFiles tls, HashFolder hash_folder)
    : root_(std::move(root)), tls_(std::move(tls)), hash_folder_(std::move(hash_folder)) {}

Result<AdapterStore> AdapterStore::Open(const std::string& root, TlsFiles tls,
                                        HashFolder hash_folder) {
  std::error_code error;
  const fs::path absolute = fs::absolute(root, error);
  for (const char* part : {"contents", "fetching"}) {
    fs::create_directories(absolute / part, error);
    if (error) return SystemError(error.value(), "cannot make the folder " + root);
  }
  return AdapterStore(absolute.string(), std::move(tls), std::move(hash_folder));
}

Result<std::string> AdapterStore::Get(const std::string& hash,
                                      const std::vector<std::string>& peers) const {
  if (!IsContentHash(hash)) return InvalidArgumentError("'" + hash + "' is no content hash");
  const std::string place = contents() + "/" + hash;
  if (FileExists(place)) return place;
  const std::string folder = root_ + "/fetching/" + hash;
  const FolderLock lock(folder + ".lock");
  if (!lock.ok()) return SystemError(errno, "cannot write in the adapters' store");
  if (FileExists(place)) return place;  // by whoever had the lock
  RETURN_IF_ERROR(FetchInto(hash, peers, folder));
  std::error_code error;
  fs::rename(folder, place, error);
  if (error) return SystemError(error.value(), "cannot keep an adapter");
  fs::remove(folder + ".lock", error);
  return place;
}

Status AdapterStore::FetchInto(const std::string& hash, const std::vector<std::string>& peers,
                               const std::string& folder) const {
  std::error_code error;
  Status last = NotFoundError("no machine of the cluster has the adapter's content");
  for (const std::string& peer : peers) {
    fs::create_directories(folder, error);
    if (error) return SystemError(error.value(), "cannot write in the adapters' store");
    ASSIGN_OR_RETURN(const auto client, AdapterClient::Make(peer, tls_));
    const Status fetched = client->Fetch(hash, folder);
    if (fetched.ok()) {
      const Result<std::string> found = hash_folder_(folder);
      if (found.ok() && *found == hash) {
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
