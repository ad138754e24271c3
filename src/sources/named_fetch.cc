#include "sources/named_fetch.h"

#include <utility>

#include "sources/hub_fetch.h"
#include "sources/s3_fetch.h"

namespace graft {
namespace {

bool IsS3Name(const std::string& text) { return text.starts_with("s3://"); }

}  // namespace

bool IsFetchedName(const std::string& text) { return IsS3Name(text) || LooksLikeHubName(text); }

Result<FetchedFolder> FetchNamed(const std::string& text, HubKind kind, DownloadOptions options) {
  if (IsS3Name(text)) {
    ASSIGN_OR_RETURN(const S3Name name, ParseS3Name(text));
    ASSIGN_OR_RETURN(const S3Settings settings, S3Settings::FromEnvironment());
    ASSIGN_OR_RETURN(S3Snapshot snapshot, FetchFromS3(settings, name, kind, std::move(options)));
    const std::string whole = name.prefix.empty() ? name.bucket : name.prefix;
    return FetchedFolder{.path = std::move(snapshot.path),
                         .name = whole.substr(whole.rfind('/') + 1),
                         .revision = std::move(snapshot.version),
                         .kind = snapshot.kind,
                         .fetched_bytes = snapshot.fetched_bytes};
  }
  ASSIGN_OR_RETURN(const HubName name, ParseHubName(text));
  ASSIGN_OR_RETURN(const HubSettings settings, HubSettings::FromEnvironment());
  ASSIGN_OR_RETURN(HubSnapshot snapshot, FetchFromHub(settings, name, kind, std::move(options)));
  return FetchedFolder{.path = std::move(snapshot.path),
                       .name = name.repo,
                       .revision = std::move(snapshot.commit),
                       .kind = snapshot.kind,
                       .fetched_bytes = snapshot.fetched_bytes};
}

}  // namespace graft
