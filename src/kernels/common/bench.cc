#include "kernels/common/bench.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace graft {
namespace {

double Median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int64_t LastLevelCacheBytes() {
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? bytes : int64_t{32} << 20;
}

// Runs of the case between two measurements of the roof.
constexpr int kRounds = 8;
constexpr int kRunsMin = 3;

}  // namespace

OpBench::OpBench(Stream& stream, const OpBenchOptions& options)
    : stream_(stream),
      options_(options),
      rotate_bytes_(std::max(options.rotate_bytes, 4 * LastLevelCacheBytes())),
      peaks_(rotate_bytes_, stream) {}

int64_t OpBench::num_copies(int64_t bytes) const {
  return std::max<int64_t>(2, (rotate_bytes_ + bytes - 1) / bytes);
}

void OpBench::Add(std::string name, const OpBenchWork& work,
                  const std::function<void(int64_t)>& run) {
  Clock& clock = SteadyClock::Get();
  int64_t next = 0;
  run(next++);  // first touch of scratch and code
  std::vector<double> times_us, read_peaks, flops_peaks;
  for (int round = 0; round < kRounds; ++round) {
    read_peaks.push_back(peaks_.MeasureReadGbytesPerSecond());
    if (work.flops > 0) flops_peaks.push_back(peaks_.MeasureGflops(work.dtype));
    const int64_t round_begin = clock.NowNs();
    const double round_ns = options_.seconds_per_case * 1e9 / kRounds;
    for (int i = 0; i < kRunsMin || static_cast<double>(clock.NowNs() - round_begin) < round_ns;
         ++i) {
      const int64_t begin = clock.NowNs();
      run(next++);
      times_us.push_back(static_cast<double>(clock.NowNs() - begin) * 1e-3);
    }
  }
  OpBenchRow row{.op = op_, .name = std::move(name), .median_us = Median(times_us)};
  row.gbytes_per_s = work.bytes / row.median_us * 1e-3;
  row.gflops = work.flops / row.median_us * 1e-3;
  row.peak_gbytes_per_s = Median(read_peaks);
  row.peak_gflops = Median(flops_peaks);
  const double flops_share = row.peak_gflops > 0 ? row.gflops / row.peak_gflops : 0.0;
  row.share_of_peak = std::max(row.gbytes_per_s / row.peak_gbytes_per_s, flops_share);
  if (options_.on_row) options_.on_row(row);
  rows_.push_back(std::move(row));
}

}  // namespace graft
