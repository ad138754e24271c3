#include "runtime/named_model.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "sources/hub_fetch.h"

namespace graft {
namespace {

std::string InMib(int64_t bytes) { return std::to_string(bytes >> 20); }

std::string TimeLeft(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace

FetchProgress::FetchProgress(const std::string& what, bool quiet)
    : bar_("fetching " + what, quiet), begin_ns_(SteadyClock::Get().NowNs()) {}

void FetchProgress::Update(int64_t done, int64_t total) {
  if (begin_bytes_ < 0) begin_bytes_ = done;
  const double seconds = NsToSeconds(SteadyClock::Get().NowNs() - begin_ns_);
  const double rate = static_cast<double>(done - begin_bytes_) / seconds;
  std::string note = InMib(done) + " of " + InMib(total) + " MiB";
  if (rate > 0) {
    note += fmt::format(", {:.0f} MiB/s", rate / (1 << 20));
    if (done < total) note += ", " + TimeLeft(static_cast<double>(total - done) / rate) + " left";
  }
  bar_.Update(done, total, note);
}

Result<std::string> FolderOfModel(const std::string& model, bool quiet) {
  if (FileExists(model) || !LooksLikeHubName(model)) return model;
  ASSIGN_OR_RETURN(const HubName name, ParseHubName(model));
  ASSIGN_OR_RETURN(const HubSettings settings, HubSettings::FromEnvironment());
  FetchProgress progress(model, quiet);
  DownloadOptions options;
  options.on_progress = [&](int64_t done, int64_t total) { progress.Update(done, total); };
  const Result<HubSnapshot> snapshot =
      FetchFromHub(settings, name, HubKind::kModel, std::move(options));
  if (!snapshot.ok()) {
    return snapshot.status().WithContext("--model " + model + " is no folder here, and its fetch " +
                                         "failed");
  }
  LOG_INFO("{} is at commit {}", name.repo, snapshot->commit);
  return snapshot->path;
}

}  // namespace graft
