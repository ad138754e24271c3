// A model or an adapter in a store that speaks S3, as a folder of Graft's cache. There it lies by
// store, bucket, prefix and version: a digest over the names, sizes and ETags of its objects, so
// that new objects make a new folder beside the old one. Blocks its caller, which is no thread that
// serves requests; has threads of its own.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "sources/hub_files.h"
#include "sources/parallel_download.h"
#include "sources/s3_client.h"

namespace graft {

struct S3Snapshot {
  std::string path;
  std::string version;  // 40 hexadecimal digits
  HubKind kind = HubKind::kModel;
  int64_t fetched_bytes = 0;
};

// Lists the prefix and fetches what is missing of it. Where the store cannot be reached, the
// version that was fetched last is taken, and the log says so. Errors as FetchFromHub's; kAborted:
// an object was replaced meanwhile.
Result<S3Snapshot> FetchFromS3(const S3Settings& settings, const S3Name& name, HubKind kind,
                               DownloadOptions options);

// The version that the prefix is at; asks for its listing alone. Errors as above.
Result<std::string> VersionInS3(const S3Settings& settings, const S3Name& name, HubKind kind,
                                DownloadOptions options);

// Removes a version's folder, in one piece for all that look for it: what is there of a version is
// never a part of it. What a process leaves that is killed meanwhile, a later fetch removes.
// kInvalidArgument: it is none.
Status RemoveS3Version(const std::string& folder);

}  // namespace graft
