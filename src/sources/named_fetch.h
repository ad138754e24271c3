// A model or an adapter by a name that says where it is: ORG/NAME[@REVISION] of the hub, or
// s3://BUCKET/PREFIX. Settings come from the environment. Blocks its caller, as the fetches do.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "sources/hub_files.h"
#include "sources/parallel_download.h"

namespace graft {

struct FetchedFolder {
  std::string path;
  std::string name;      // without the revision, for people: ORG/NAME, or the prefix's last part
  std::string revision;  // a commit, or a version of 40 digits
  HubKind kind = HubKind::kModel;
  int64_t fetched_bytes = 0;  // 0: all was there
};

// Whether it is such a name, and no path.
bool IsFetchedName(const std::string& text);

// kInvalidArgument where it is none. Else FetchFromHub's and FetchFromS3's errors.
Result<FetchedFolder> FetchNamed(const std::string& text, HubKind kind, DownloadOptions options);

}  // namespace graft
