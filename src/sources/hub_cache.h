// HubCache: one repository in the cache of a hub's client, in the layout that Hugging Face's own
// client reads and writes: blobs/ETAG, refs/REVISION, snapshots/COMMIT/PATH with relative links
// into blobs/, trees/COMMIT.json, .no_exist/COMMIT/PATH, and .locks/ beside the repositories.
// Several programs may work on one cache at once: a blob is there whole or not at all, and a
// revision is written once its snapshot is. One thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/file_lock.h"
#include "base/status.h"
#include "sources/hub_client.h"

namespace graft {

class HubCache {
 public:
  // `cache`: the folder of all repositories.
  HubCache(std::string cache, std::string repo);

  std::string folder() const { return folder_; }
  std::string SnapshotPath(const std::string& commit) const;
  std::string BlobPath(const std::string& etag) const;
  // While it is fetched, a name that only processes share which see each other's locks: machines
  // that share a file system may not. It is one of those that other clients leave alone. `own`: no
  // other process has it.
  std::string UnfinishedPath(const std::string& etag, bool own = false) const;

  // Makes the folders. SystemError's codes, here and below.
  Status Prepare() const;
  // One at a time fetches a blob. Waits while another program does; kCancelled. None where the file
  // system has no locks.
  Result<std::optional<FileLock>> LockBlob(const std::string& etag,
                                           const std::atomic<bool>* is_cancelled) const;
  // Whether the bytes are there, by their size.
  bool HasBlob(const HubFile& file) const;
  bool HasFile(const std::string& commit, const HubFile& file) const;
  // The file of the snapshot leads to its blob.
  Status Link(const std::string& commit, const HubFile& file) const;

  // kNotFound: the revision was never fetched. A commit stands for itself.
  Result<std::string> CommitOf(const std::string& revision) const;
  Status WriteRef(const std::string& revision, const std::string& commit) const;
  Status MarkMissing(const std::string& commit, const std::string& path) const;
  // What a client takes for the whole of a snapshot: to be written where all of it is there.
  Status WriteTree(const std::string& commit, const HubTree& tree) const;
  // The same, by whichever client. kNotFound; kDataLoss.
  Result<HubTree> ReadTree(const std::string& commit) const;

 private:
  // The text of a file that others may read at any moment.
  Status Replace(const std::string& path, const std::string& text, mode_t mode) const;

  const std::string cache_;
  const std::string folder_;
  const std::string locks_;
};

// Removes a snapshot, the revisions that are at it, and the blobs that no other snapshot of its
// repository leads to.
Status RemoveHubSnapshot(const std::string& snapshot);

// The bytes of the files in a folder and below, where links lead.
int64_t FolderBytes(const std::string& folder);

}  // namespace graft
