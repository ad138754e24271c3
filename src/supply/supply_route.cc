#include "supply/supply_route.h"

#include <filesystem>
#include <utility>

#include "base/adapter_files.h"
#include "base/log.h"
#include "sources/hub_cache.h"
#include "sources/hub_client.h"
#include "sources/hub_fetch.h"
#include "sources/hub_names.h"
#include "sources/s3_fetch.h"

namespace graft {
namespace {

// Requests wait for the answer, so a source that is slow is told of sooner than by graft fetch.
WebPatienceOptions PatienceOfRequests() {
  return {.tries_max = 4, .wait_ns_max = int64_t{30} * 1'000'000'000};
}

DownloadOptions OptionsOf(const std::atomic<bool>& is_cancelled, int64_t bytes_max) {
  DownloadOptions options;
  options.bytes_max = bytes_max;
  options.web.is_cancelled = &is_cancelled;
  options.patience = PatienceOfRequests();
  options.yields = true;
  return options;
}

// By the token: a gated repository tells all that ask which commit it is at.
Status CheckMayRead(HubClient& client, const std::string& repo, const std::string& commit) {
  const Status status = client.CheckAccess(repo, commit, kPeftFiles[0]);
  if (status.code() != StatusCode::kNotFound) return status;
  return client.CheckAccess(repo, commit, kBundleManifest);
}

bool IsWholeFolder(const std::string& folder) {
  return CheckHubFolder(folder, HubKind::kAdapter).ok();
}

SourceFolder FolderOf(std::string path, std::string revision, int64_t fetched_bytes) {
  SourceFolder folder{
      .path = std::move(path), .revision = std::move(revision), .fetched_bytes = fetched_bytes};
  // As catalogs name it: with its links resolved.
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(folder.path, error);
  if (!error) folder.path = resolved.string();
  folder.bytes = FolderBytes(folder.path);
  return folder;
}

class HubRoute : public SupplyRoute {
 public:
  HubRoute(HubSettings settings, int64_t bytes_max)
      : settings_(std::move(settings)), bytes_max_(bytes_max) {}

  Result<std::string> RevisionOf(const std::string& rest, const SupplyRights& rights,
                                 const std::atomic<bool>& is_cancelled) override {
    ASSIGN_OR_RETURN(const HubName name, ParseHubName(rest));
    const HubSettings settings = With(rights.token);
    if (settings.is_offline) {
      if (rights.token != nullptr) {
        return PermissionDeniedError(
            "the hub is not asked (HF_HUB_OFFLINE), so it accepts no tenant's token");
      }
      ASSIGN_OR_RETURN(const HubSnapshot known, FindInHubCache(settings, name, HubKind::kAdapter));
      return known.commit;
    }
    WebOptions web{.reachable = ReachableAddresses::Beside(settings.endpoint.host),
                   .is_cancelled = &is_cancelled};
    HubClient client(settings, std::move(web), PatienceOfRequests());
    ASSIGN_OR_RETURN(std::string commit, client.CommitOf(name.repo, name.revision));
    if (rights.token != nullptr) RETURN_IF_ERROR(CheckMayRead(client, name.repo, commit));
    return commit;
  }

  Result<SourceFolder> Fetch(const std::string& rest, const std::string& revision,
                             const SupplyRights& rights,
                             const std::atomic<bool>& is_cancelled) override {
    ASSIGN_OR_RETURN(HubName name, ParseHubName(rest));
    const std::string asked = std::exchange(name.revision, revision);
    ASSIGN_OR_RETURN(HubSnapshot snapshot, FetchFromHub(With(rights.token), name, HubKind::kAdapter,
                                                        OptionsOf(is_cancelled, bytes_max_)));
    // By which the name is found offline, by the hub's own client too.
    const Status noted = HubCache(settings_.cache, name.repo).WriteRef(asked, snapshot.commit);
    if (!noted.ok()) LOG_WARN("{}", noted.message());
    return FolderOf(std::move(snapshot.path), std::move(snapshot.commit), snapshot.fetched_bytes);
  }

  bool IsName(const std::string& rest) const override { return ParseHubName(rest).ok(); }
  bool IsThere(const std::string& folder) const override { return IsWholeFolder(folder); }
  Status Remove(const std::string& folder) override { return RemoveHubSnapshot(folder); }
  std::string root() const override { return settings_.cache; }

 private:
  HubSettings With(const Secret* token) const {
    HubSettings settings = settings_;
    if (token != nullptr) settings.token = *token;
    return settings;
  }

  const HubSettings settings_;
  const int64_t bytes_max_;
};

class S3Route : public SupplyRoute {
 public:
  S3Route(S3Settings settings, S3Name store, int64_t bytes_max)
      : settings_(std::move(settings)), store_(std::move(store)), bytes_max_(bytes_max) {}

  Result<std::string> RevisionOf(const std::string& rest, const SupplyRights& /*rights*/,
                                 const std::atomic<bool>& is_cancelled) override {
    ASSIGN_OR_RETURN(const S3Name name, NameOf(rest));
    return VersionInS3(settings_, name, HubKind::kAdapter,
                       OptionsOf(is_cancelled, /*bytes_max=*/0));
  }

  Result<SourceFolder> Fetch(const std::string& rest, const std::string& /*revision*/,
                             const SupplyRights& /*rights*/,
                             const std::atomic<bool>& is_cancelled) override {
    ASSIGN_OR_RETURN(const S3Name name, NameOf(rest));
    ASSIGN_OR_RETURN(S3Snapshot snapshot, FetchFromS3(settings_, name, HubKind::kAdapter,
                                                      OptionsOf(is_cancelled, bytes_max_)));
    return FolderOf(std::move(snapshot.path), std::move(snapshot.version), snapshot.fetched_bytes);
  }

  bool IsName(const std::string& rest) const override { return NameOf(rest).ok(); }
  bool IsThere(const std::string& folder) const override { return IsWholeFolder(folder); }
  Status Remove(const std::string& folder) override { return RemoveS3Version(folder); }
  std::string root() const override { return settings_.cache; }

 private:
  Result<S3Name> NameOf(const std::string& rest) const {
    const std::string above = store_.prefix.empty() ? "" : store_.prefix + "/";
    if (rest.ends_with('/')) return InvalidArgumentError("a name ends with a slash");
    return ParseS3Name("s3://" + store_.bucket + "/" + above + rest);
  }

  const S3Settings settings_;
  const S3Name store_;
  const int64_t bytes_max_;
};

class RemoteRoute : public SupplyRoute {
 public:
  RemoteRoute(std::unique_ptr<SupplyRoute> asked, std::string source, bool has_tenant_tokens,
              SourceFetcher& fetcher)
      : asked_(std::move(asked)),
        source_(std::move(source)),
        has_tenant_tokens_(has_tenant_tokens),
        fetcher_(fetcher) {}

  Result<std::string> RevisionOf(const std::string& rest, const SupplyRights& rights,
                                 const std::atomic<bool>& is_cancelled) override {
    return asked_->RevisionOf(rest, rights, is_cancelled);
  }
  Result<SourceFolder> Fetch(const std::string& rest, const std::string& revision,
                             const SupplyRights& rights,
                             const std::atomic<bool>& is_cancelled) override {
    return fetcher_.Fetch({.source = source_,
                           .rest = rest,
                           .revision = revision,
                           .is_tenants = rights.token != nullptr,
                           .tenant = rights.tenant,
                           .has_tenant_tokens = has_tenant_tokens_},
                          is_cancelled);
  }
  bool IsName(const std::string& rest) const override { return asked_->IsName(rest); }
  // It is on another machine; runners have the content from each other.
  bool IsThere(const std::string& /*folder*/) const override { return true; }
  Status Remove(const std::string& folder) override { return fetcher_.Drop(source_, folder); }
  std::string root() const override { return asked_->root(); }

 private:
  const std::unique_ptr<SupplyRoute> asked_;
  const std::string source_;
  const bool has_tenant_tokens_;
  SourceFetcher& fetcher_;
};

}  // namespace

std::unique_ptr<SupplyRoute> MakeRemoteRoute(std::unique_ptr<SupplyRoute> asked, std::string source,
                                             bool has_tenant_tokens, SourceFetcher& fetcher) {
  return std::make_unique<RemoteRoute>(std::move(asked), std::move(source), has_tenant_tokens,
                                       fetcher);
}

std::unique_ptr<SupplyRoute> MakeHubRoute(HubSettings settings, int64_t bytes_max) {
  return std::make_unique<HubRoute>(std::move(settings), bytes_max);
}

std::unique_ptr<SupplyRoute> MakeS3Route(S3Settings settings, S3Name store, int64_t bytes_max) {
  return std::make_unique<S3Route>(std::move(settings), std::move(store), bytes_max);
}

}  // namespace graft
