#include "cli/source_options.h"

#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/fault.h"

namespace graft {
namespace {

std::vector<Option> TokensAndPatterns(SourceFlags& flags) {
  return {{"allow", Texts(flags.allow),
           "a pattern of names that may be looked up, with * for any characters: NAME/ORG/*; may "
           "be repeated"},
          {"source-tokens", Text(flags.tokens_file),
           "JSON file {\"TENANT\": \"TOKEN\"}: hubs are asked by the tenant's own token, and a "
           "tenant has what its token is given",
           "all tenants have what HF_TOKEN is given"}};
}

}  // namespace

OptionGroup SourceOptionGroup(SourceFlags& flags) {
  OptionGroup group = {"Sources of adapters",
                       {{"source", Texts(flags.sources),
                         "NAME=hf: or NAME=s3://BUCKET/PREFIX: adapters that are not listed are "
                         "looked up there as NAME/ORG/NAME[@REVISION] or NAME/PATH; may be "
                         "repeated (docs/sources.md)"}}};
  for (Option& row : TokensAndPatterns(flags)) group.options.push_back(std::move(row));
  group.options.push_back(
      {"source-disk-gib", Number(flags.gib, AtLeast(0)),
       "GiB on the disk that adapters of sources may take; above it those that were used least "
       "lately are forgotten, an hour after their last use, and removed an hour later; 0: no "
       "bound"});
  return group;
}

std::vector<Option> RunnerSourceRows(SourceFlags& flags) {
  std::vector<Option> rows = {{"source", Texts(flags.sources),
                               "as the frontends' own: this runner fetches what they look up "
                               "there, for all runners; may be repeated (docs/sources.md)"}};
  for (Option& row : TokensAndPatterns(flags)) rows.push_back(std::move(row));
  return rows;
}

Result<PreparedSources> PreparedSources::Read(const SourceFlags& flags) {
  PreparedSources sources;
  ASSIGN_OR_RETURN(sources.options_,
                   SupplyOptionsOf(flags.sources, flags.allow, flags.tokens_file));
  sources.options_.bytes_max = static_cast<int64_t>(flags.gib * (1 << 30));
  for (const SupplySource& source : sources.options_.sources) {
    if (source.is_hub) {
      ASSIGN_OR_RETURN(HubSettings settings, HubSettings::FromEnvironment());
      sources.routes_.push_back(MakeHubRoute(std::move(settings), sources.options_.bytes_max));
    } else {
      ASSIGN_OR_RETURN(S3Settings settings, S3Settings::FromEnvironment());
      sources.routes_.push_back(
          MakeS3Route(std::move(settings), source.store, sources.options_.bytes_max));
    }
    const std::string root = sources.routes_.back()->root();
    std::error_code error;
    std::filesystem::create_directories(root, error);
    if (error)
      return SystemError(error.value(), "cannot make the folder of what is fetched, " + root);
  }
  return sources;
}

std::vector<std::string> PreparedSources::roots() const {
  std::vector<std::string> roots;
  for (const auto& route : routes_) roots.push_back(route->root());
  return roots;
}

std::unique_ptr<LocalSources> PreparedSources::ForOthers() {
  if (routes_.empty()) return nullptr;
  return std::make_unique<LocalSources>(std::move(options_), std::move(routes_));
}

std::unique_ptr<AdapterSupply> PreparedSources::Start(AdapterCatalog& catalog,
                                                      SourceFetcher* fetcher) {
  if (routes_.empty()) return nullptr;
  for (size_t i = 0; fetcher != nullptr && i < routes_.size(); ++i) {
    routes_[i] = MakeRemoteRoute(std::move(routes_[i]), options_.sources[i].name,
                                 options_.has_tenant_tokens, *fetcher);
  }
  return std::make_unique<AdapterSupply>(std::move(options_), std::move(routes_), catalog,
                                         SteadyClock::Get());
}

}  // namespace graft
