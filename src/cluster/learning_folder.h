// LearningFolder: the data of a cluster's learning that is too big for etcd: documents, checkpoints
// and learned adapters. It is one folder that frontends and learning runners share, each by its own
// mount. Only files that etcd's records name count; Sweep removes the others. Thread-safe; calls
// block.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <string_view>

#include "base/status.h"

namespace graft {

class LearningFolder {
 public:
  // Makes what is not there, for this process's user alone, which all that share it have.
  // kFailedPrecondition: another cluster has it, or a single server.
  static Result<LearningFolder> Open(const std::string& path, const std::string& cluster_id);

  // The same on all machines that share it, and nowhere else.
  const std::string& id() const { return id_; }
  std::string adapters() const { return root_ + "/adapters"; }

  // Documents, by their files' ids.
  Status WriteFile(const std::string& id, std::string_view content) const;
  Result<std::string> ReadFile(const std::string& id) const;
  void RemoveFile(const std::string& id) const;

  // The learned folder stays for the grace, since processes may still read it.
  void LetGo(const std::string& adapter) const;

  struct Wanted {
    std::set<std::string> files;     // ids
    std::set<std::string> jobs;      // ids of those that are not finished
    std::set<std::string> adapters;  // folders' names
  };
  // Removes what is not wanted and was written, or let go, longer ago than `grace`. How many.
  int Sweep(const Wanted& wanted, std::chrono::seconds grace) const;

 private:
  LearningFolder(std::string root, std::string id) : root_(std::move(root)), id_(std::move(id)) {}
  std::string PathOf(const std::string& file) const { return root_ + "/files/" + file; }

  std::string root_;
  std::string id_;
};

}  // namespace graft
