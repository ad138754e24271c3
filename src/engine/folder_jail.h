// FolderJail: where PEFT folders lie. They are in the adapters folder, under their own names,
// or as a hub's cache keeps them (models--ORG--NAME with snapshots/REVISION full of links into
// blobs/), under the name ORG/NAME. Links may lead into the adapters folder and into folders that
// the operator names. Loads and lists of anything else are refused. Immutable; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"

namespace graft {

class FolderJail {
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

  // `root`: the adapters folder; "": nothing may be loaded. `link_roots`: further folders that
  // links may lead into. `learned`: where this server writes what it learns, which no load names;
  // "" for none. `takes_texts`: whether files of texts and tokenizers count. `fetched`: where this
  // server puts what it fetches, which no load names either.
  FolderJail(std::string root, std::vector<std::string> link_roots, std::string learned = "",
             bool takes_texts = true, std::vector<std::string> fetched = {});

  // Finds every sub-folder that holds an adapter_config.json or is a bundle. Refused are folders
  // with files that may not be looked at, folders with weights alone, folders that are no adapter
  // but have some below, and names that no request could give (CheckAdapterName). kInvalidArgument:
  // the root itself is an adapter, and has none in it.
  Result<Found> Find() const;

  // Returns `path` (absolute, or relative to the root) with its links resolved, if adapters may be
  // loaded from there. For a hub's folder it is the current snapshot. A hub's folder may also be
  // given as ORG/NAME, unless another folder lies there. kInvalidArgument: the path is an address
  // that would have to be fetched.
  Result<std::string> Resolve(const std::string& path) const;

  // The same inside the folder of what was learned.
  Result<std::string> ResolveLearned(const std::string& path) const;

  // The same inside the folders of what was fetched, here or, for what other machines gave, where
  // Resolve looks.
  Result<std::string> ResolveFetched(const std::string& path) const;

  bool IsLearned(const std::string& path) const {
    return !learned_.empty() && path.starts_with(learned_ + "/");
  }

  // Whether a folder inside the root was deleted: it does not exist, and the nearest existing
  // folder above it has something else in it. A disk that is not mounted leaves an empty folder or
  // one that cannot be read, so in doubt the answer is no.
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
  const FileJail read_jail_;  // and what was fetched
  const std::string learned_;
  const bool takes_texts_;
  const std::vector<std::string> fetched_;
};

}  // namespace graft
