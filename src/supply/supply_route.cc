#include "supply/supply_route.h"

#include <filesystem>
#include <utility>

#include "base/adapter_files.h"
#include "base/fault.h"
#include "sources/hub_cache.h"
#include "sources/hub_client.h"
#include "sources/hub_fetch.h"
#include "sources/s3_fetch.h"

namespace graft {
namespace {

// Requests wait for the answer, so a source that is slow is told of sooner than by graft fetch.
WebPatienceOptions PatienceOfRequests() {
  return {.tries_max = 4, .wait_ns_max = int64_t{30} * 1'000'000'000};
}

DownloadOptions OptionsOf(const std::atomic<bool>& is_cancelled) {
  DownloadOptions options;
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

class HubRoute : public SupplyRoute {
 public:
  explicit HubRoute(HubSettings settings) : settings_(std::move(settings)) {}

  Result<std::string> RevisionOf(const std::string& rest, const Secret* token,
                                 const std::atomic<bool>& is_cancelled) override {
    ASSIGN_OR_RETURN(const HubName name, ParseHubName(rest));
    const HubSettings settings = With(token);
    if (settings.is_offline) {
      if (token != nullptr) {
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
    if (token != nullptr) RETURN_IF_ERROR(CheckMayRead(client, name.repo, commit));
    return commit;
  }

  Result<FetchedFolder> Fetch(const std::string& rest, const std::string& revision,
                              const Secret* token, const std::atomic<bool>& is_cancelled) override {
    ASSIGN_OR_RETURN(HubName name, ParseHubName(rest));
    name.revision = revision;
    ASSIGN_OR_RETURN(HubSnapshot snapshot,
                     FetchFromHub(With(token), name, HubKind::kAdapter, OptionsOf(is_cancelled)));
    return FetchedFolder{.path = std::move(snapshot.path),
                         .name = name.repo,
                         .revision = std::move(snapshot.commit),
                         .kind = snapshot.kind,
                         .fetched_bytes = snapshot.fetched_bytes};
  }

  bool IsName(const std::string& rest) const override { return ParseHubName(rest).ok(); }
  Status Remove(const std::string& folder) override { return RemoveHubSnapshot(folder); }
  std::string root() const override { return settings_.cache; }

 private:
  HubSettings With(const Secret* token) const {
    HubSettings settings = settings_;
    if (token != nullptr) settings.token = *token;
    return settings;
  }

  const HubSettings settings_;
};

class S3Route : public SupplyRoute {
 public:
  S3Route(S3Settings settings, S3Name store)
      : settings_(std::move(settings)), store_(std::move(store)) {}

  Result<std::string> RevisionOf(const std::string& rest, const Secret* /*token*/,
                                 const std::atomic<bool>& is_cancelled) override {
    ASSIGN_OR_RETURN(const S3Name name, NameOf(rest));
    return VersionInS3(settings_, name, HubKind::kAdapter, OptionsOf(is_cancelled));
  }

  Result<FetchedFolder> Fetch(const std::string& rest, const std::string& /*revision*/,
                              const Secret* /*token*/,
                              const std::atomic<bool>& is_cancelled) override {
    ASSIGN_OR_RETURN(const S3Name name, NameOf(rest));
    ASSIGN_OR_RETURN(S3Snapshot snapshot,
                     FetchFromS3(settings_, name, HubKind::kAdapter, OptionsOf(is_cancelled)));
    return FetchedFolder{.path = std::move(snapshot.path),
                         .name = rest,
                         .revision = std::move(snapshot.version),
                         .kind = snapshot.kind,
                         .fetched_bytes = snapshot.fetched_bytes};
  }

  bool IsName(const std::string& rest) const override { return NameOf(rest).ok(); }
  Status Remove(const std::string& folder) override {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
    return error ? SystemError(error.value(), "cannot remove " + folder) : OkStatus();
  }
  std::string root() const override { return settings_.cache; }

 private:
  Result<S3Name> NameOf(const std::string& rest) const {
    const std::string above = store_.prefix.empty() ? "" : store_.prefix + "/";
    if (rest.ends_with('/')) return InvalidArgumentError("a name ends with a slash");
    return ParseS3Name("s3://" + store_.bucket + "/" + above + rest);
  }

  const S3Settings settings_;
  const S3Name store_;
};

}  // namespace

std::unique_ptr<SupplyRoute> MakeHubRoute(HubSettings settings) {
  return std::make_unique<HubRoute>(std::move(settings));
}

std::unique_ptr<SupplyRoute> MakeS3Route(S3Settings settings, S3Name store) {
  return std::make_unique<S3Route>(std::move(settings), std::move(store));
}

}  // namespace graft
