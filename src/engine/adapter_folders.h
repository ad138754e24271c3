// Where PEFT folders lie: in the adapters folder, under their own names, or as a hub's cache keeps
// them (models--ORG--NAME with snapshots/REVISION full of links into blobs/), under the name
// ORG/NAME. Links may lead into the adapters folder and into folders that the operator names beside
// it; loads and lists of anything else are refused. Immutable; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace graft {

class AdapterFolders {
 public:
  struct Folder {
    std::string name;
    std::string path;   // links resolved
    std::string stamp;  // as StampOf
    int64_t weight_bytes = 0;
  };
  struct Refused {
    std::string name;
    Status why;
  };
  struct Found {
    std::vector<Folder> folders;  // sorted by name
    std::vector<Refused> refused;
  };

  // `root` "": nothing may be loaded. Links may also lead into `link_roots`. `learned`: where this
  // server puts what it learns, which no load names; "" for none. `takes_texts`: whether the files
  // of texts and tokenizers in them count.
  AdapterFolders(std::string root, std::vector<std::string> link_roots, std::string learned = "",
                 bool takes_texts = true);

  // Every sub-folder that holds an adapter_config.json or is a bundle. Refused are those with files
  // that may not be looked at, those with weights alone, those that are no adapter but have some
  // below, and those with names that no request could give (CheckAdapterName). kInvalidArgument:
  // the root is an adapter itself, and has none in it.
  Result<Found> Find() const;

  // `path` (absolute, or relative to the root) with its links resolved, if adapters may be loaded
  // from there; of a hub's folder its current snapshot. That folder goes by its ORG/NAME as well,
  // unless another folder lies there. kInvalidArgument: an address that would have to be fetched.
  Result<std::string> Resolve(const std::string& path) const;

  // The same inside the folder of what was learned.
  Result<std::string> ResolveLearned(const std::string& path) const;

  bool IsLearned(const std::string& path) const {
    return !learned_.empty() && path.starts_with(learned_ + "/");
  }

  // Whether a folder inside the root was deleted: it is not there, and the nearest folder above it
  // that is has something else in it. A disk that is away leaves an empty folder or one that cannot
  // be looked into; so the doubtful stay.
  bool IsDeleted(const std::string& path) const;

  // The files of texts and tokenizers in an adapter's folder that are links out of where reads may
  // go: they count as not there.
  std::vector<std::string> TextsOutside(const std::string& path) const;

  // A text that changes whenever one of the adapter's files that count is written, made or removed.
  std::string StampOf(const std::string& path) const;

 private:
  Result<std::string> SnapshotOf(const std::string& path) const;
  Status CheckFilesInside(const std::string& path) const;
  Result<Folder> Look(const std::string& name, const std::string& path, bool is_link) const;

  const std::string root_;
  const FileJail jail_;
  const std::string learned_;
  const bool takes_texts_;
};

}  // namespace graft
