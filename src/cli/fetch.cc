// graft fetch: models and adapters of a hub or a store, into the cache, before anything serves
// them.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cli/commands.h"
#include "runtime/named_model.h"
#include "runtime/runtime_options.h"
#include "sources/named_fetch.h"

namespace graft {
namespace {

constexpr OptionWord<HubKind> kHubKindWords[] = {
    {HubKind::kEither, "auto"}, {HubKind::kModel, "model"}, {HubKind::kAdapter, "adapter"}};

struct FetchOptions {
  std::vector<std::string> names;
  HubKind kind = HubKind::kEither;
  int connections = DownloadOptions().connections_max;
  bool quiet = false;
  std::string log_level = "warn";
};

Status FetchOne(const FetchOptions& options, const std::string& name) {
  FetchProgress progress(name, options.quiet);
  DownloadOptions download;
  download.connections_max = options.connections;
  download.on_progress = [&](int64_t done, int64_t total) { progress.Update(done, total); };
  ASSIGN_OR_RETURN(const FetchedFolder fetched,
                   FetchNamed(name, options.kind, std::move(download)));
  std::printf("%s\n", fetched.path.c_str());
  return OkStatus();
}

Status RunFetch(const FetchOptions& options) {
  RETURN_IF_ERROR(InitLog(options.log_level));
  if (options.names.empty()) {
    return InvalidArgumentError(
        "what is to be fetched? graft fetch ORG/NAME[@REVISION], or s3://BUCKET/PREFIX");
  }
  for (const std::string& name : options.names) RETURN_IF_ERROR(FetchOne(options, name));
  return OkStatus();
}

}  // namespace

Command FetchCommand() {
  const auto options = std::make_shared<FetchOptions>();  // lives as long as the command
  return {.name = "fetch",
          .help =
              "Fetch models or adapters of a hub or of a store like S3, and print their folders.\n"
              "  graft fetch ORG/NAME\n"
              "  graft fetch ORG/NAME@REVISION --kind adapter\n"
              "  graft fetch s3://BUCKET/PREFIX",
          .groups = {{"Fetching",
                      {Positional({.name = "name",
                                   .target = Texts(options->names),
                                   .help = "ORG/NAME or ORG/NAME@REVISION of a hub (a branch, a "
                                           "tag or a commit), or s3://BUCKET/PREFIX; may be "
                                           "repeated"}),
                       {"kind", OneOf(options->kind, kHubKindWords),
                        "what is fetched of it; auto: an adapter's files where it has an adapter's "
                        "config and no model's"},
                       {"connections", Number(options->connections, Between(1, 64)),
                        "parts that are fetched at once"},
                       {"quiet", Switch(options->quiet), "no progress bars"},
                       LogLevelOptionRow(options->log_level)}}},
          .run = [options] { return RunFetch(*options); }};
}

}  // namespace graft
