#include "runtime/named_model.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "sources/named_fetch.h"

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

Status FindNamedModel(bool quiet, RuntimeOptions* options) {
  const std::string text = options->model;
  if (FileExists(text) || !IsFetchedName(text)) return OkStatus();
  FetchProgress progress(text, quiet);
  DownloadOptions download;
  download.on_progress = [&](int64_t done, int64_t total) { progress.Update(done, total); };
  const Result<FetchedFolder> fetched = FetchNamed(text, HubKind::kModel, std::move(download));
  if (!fetched.ok()) {
    return fetched.status().WithContext("--model " + text +
                                        " is no folder here, and it could not be fetched");
  }
  LOG_INFO("{} is at revision {}", text, fetched->revision);
  options->model = fetched->path;
  options->model_revision = fetched->revision;
  if (options->model_name.empty()) options->model_name = fetched->name;
  return OkStatus();
}

}  // namespace graft
