// Models by name: --model ORG/NAME[@REVISION] or s3://BUCKET/PREFIX is fetched from where the
// environment says (src/sources/hub_settings.h), or found in the cache, before anything else
// begins. Main thread.
#pragma once

#include <string>

#include "base/status.h"
#include "runtime/progress.h"
#include "runtime/runtime_options.h"

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

// Puts the folder, and the name for clients where there is none, in the place of a model's name.
// Nothing changes where something lies at that path, or where it is no such name. The error of a
// fetch says that no folder was found, too.
Status FindNamedModel(bool quiet, RuntimeOptions* options);

}  // namespace graft
