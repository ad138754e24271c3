// Models by name: --model ORG/NAME[@REVISION] is fetched from the hub that the environment names
// (src/sources/hub_settings.h), or found in its cache, before anything else begins. Main thread.
#pragma once

#include <string>

#include "base/status.h"
#include "runtime/progress.h"

namespace graft {

// Tells on stderr how far a fetch is: bytes, rate and the time left.
class FetchProgress {
 public:
  FetchProgress(const std::string& what, bool quiet);
  void Update(int64_t done, int64_t total);

 private:
  ProgressBar bar_;
  const int64_t begin_ns_;
  int64_t begin_bytes_ = -1;  // there before this process began
};

// The folder of `model`: itself where something lies at that path, or where it is no hub's name;
// else the snapshot of the hub's cache, whole. The error of a fetch says that no folder was found,
// too.
Result<std::string> FolderOfModel(const std::string& model, bool quiet);

}  // namespace graft
