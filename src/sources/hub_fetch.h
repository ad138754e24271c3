// A model or an adapter of a hub, as a folder of the hub's cache: found there, or fetched, checked
// and put there. Blocks its caller, which is no thread that serves requests; has threads of its
// own.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "sources/hub_files.h"
#include "sources/hub_names.h"
#include "sources/hub_settings.h"
#include "sources/parallel_download.h"

namespace graft {

struct HubSnapshot {
  std::string path;  // snapshots/COMMIT
  std::string commit;
  HubKind kind = HubKind::kModel;
  int64_t fetched_bytes = 0;  // 0: all was there
};

// What of the cache is complete, without asking the hub. kNotFound says what is missing.
Result<HubSnapshot> FindInHubCache(const HubSettings& settings, const HubName& name, HubKind kind);

// Asks the hub which commit the revision is at, and fetches what is missing of it. A hub that
// cannot be reached is told in the log, and what the cache has is taken; with HF_HUB_OFFLINE it is
// not asked. kFailedPrecondition: no room on the disk, or no repository that is served. kDataLoss:
// twice the bytes were not those that the hub lists.
Result<HubSnapshot> FetchFromHub(const HubSettings& settings, const HubName& name, HubKind kind,
                                 DownloadOptions options);

}  // namespace graft
