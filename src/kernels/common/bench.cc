#include "kernels/common/bench.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "tensor/cuda_graph.h"
#include "tensor/cuda_memory.h"
#include "tensor/stream_timer.h"

namespace graft {
namespace {

double Median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int64_t LastLevelCacheBytes(const Device& device) {
  // More than a Hopper's 50 to 60 MB.
  if (!device.is_cpu()) return int64_t{64} << 20;
  const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? bytes : int64_t{32} << 20;
}

// Runs of the case between two measurements of the roof.
constexpr int kRounds = 8;
constexpr int kRunsMin = 3;

// Long beside the events around a graph; nor should a graph take long to make.
constexpr double kGraphUsMin = 1000.0;
constexpr int64_t kGraphRunsMax = 4096;
constexpr int kReplaysMin = 7;
constexpr int kWarmUps = 2;

}  // namespace

OpBench::OpBench(Stream& stream, const OpBenchOptions& options)
    : stream_(stream),
      options_(options),
      rotate_bytes_(std::max(options.rotate_bytes, 4 * LastLevelCacheBytes(stream.device))),
      peaks_(rotate_bytes_, stream),
      head_start_(stream.device.is_cpu() ? 0 : rotate_bytes_, stream.device) {}

int64_t OpBench::num_copies(int64_t bytes) const {
  return std::max<int64_t>(2, (rotate_bytes_ + bytes - 1) / bytes);
}

std::vector<double> OpBench::TimeOnCpu(const Run& run, OpBenchRow* row) {
  Clock& clock = SteadyClock::Get();
  int64_t next = 0;
  run(next++);  // first touch of scratch and code
  std::vector<double> times_us, bytes_peaks, flops_peaks;
  for (int round = 0; round < kRounds; ++round) {
    bytes_peaks.push_back(peaks_.MeasureGbytesPerSecond());
    if (row->work.flops > 0) flops_peaks.push_back(peaks_.MeasureGflops(row->work.dtype));
    const int64_t round_begin = clock.NowNs();
    const double round_ns = options_.seconds_per_case * 1e9 / kRounds;
    for (int i = 0; i < kRunsMin || static_cast<double>(clock.NowNs() - round_begin) < round_ns;
         ++i) {
      const int64_t begin = clock.NowNs();
      run(next++);
      times_us.push_back(static_cast<double>(clock.NowNs() - begin) * 1e-3);
    }
  }
  row->peak_gbytes_per_s = Median(bytes_peaks);
  row->peak_gflops = Median(flops_peaks);
  return times_us;
}

std::vector<double> OpBench::TimeOnGpu(const Run& run, OpBenchRow* row) {
  row->peak_gbytes_per_s = peaks_.MeasureGbytesPerSecond();
  if (row->work.flops > 0) row->peak_gflops = peaks_.MeasureGflops(row->work.dtype);
  run(0);  // loads the kernels
  Synchronize(stream_);
  return row->work.can_capture ? TimeGraph(row->work.num_copies, run) : TimeLaunches(run);
}

// One by one for the time of a case. Before each the GPU is given something to do for some 60 us,
// so that what the host does to launch it is done by then and does not count.
std::vector<double> OpBench::TimeLaunches(const Run& run) {
  Clock& clock = SteadyClock::Get();
  const int64_t begin = clock.NowNs();
  StreamTimer timer(stream_);
  std::vector<double> times_us;
  for (int64_t i = 0; i < kWarmUps + kReplaysMin ||
                      static_cast<double>(clock.NowNs() - begin) < options_.seconds_per_case * 1e9;
       ++i) {
    int64_t ns = 0;
    const int64_t half = head_start_.bytes() / 2;
    CopyOnDevice(head_start_.as<char>() + half, head_start_.data(), half, stream_);
    {
      const StreamTimer::Scope scope(&timer, &ns);
      run(i);
    }
    timer.Collect();
    if (i >= kWarmUps) times_us.push_back(static_cast<double>(ns) * 1e-3);
  }
  return times_us;
}

std::vector<double> OpBench::TimeGraph(int64_t num_copies, const Run& run) {
  int64_t next = 0;
  int64_t single_ns = 0;
  StreamTimer timer(stream_);
  {
    const StreamTimer::Scope scope(&timer, &single_ns);
    for (; next < kRunsMin; ++next) run(next);
  }
  timer.Collect();
  const double run_us = std::max(static_cast<double>(single_ns) * 1e-3 / kRunsMin, 0.1);
  const int64_t num_runs =
      std::min(std::max(num_copies, static_cast<int64_t>(kGraphUsMin / run_us) + 1), kGraphRunsMax);
  CapturedGraph graph(stream_, [&] {
    for (int64_t i = 0; i < num_runs; ++i) run(next++);
  });
  std::vector<double> times_us = TimeLaunches([&](int64_t) { graph.Launch(stream_); });
  for (double& us : times_us) us /= static_cast<double>(num_runs);
  return times_us;
}

void OpBench::Add(std::string name, const OpBenchWork& work,
                  const std::function<void(int64_t)>& run) {
  OpBenchRow row{.op = op_, .name = std::move(name), .work = work};
  row.median_us = Median(is_cpu() ? TimeOnCpu(run, &row) : TimeOnGpu(run, &row));
  row.gbytes_per_s = work.bytes / row.median_us * 1e-3;
  row.gflops = work.flops / row.median_us * 1e-3;
  const double flops_share = row.peak_gflops > 0 ? row.gflops / row.peak_gflops : 0.0;
  row.share_of_peak = std::max(row.gbytes_per_s / row.peak_gbytes_per_s, flops_share);
  if (options_.on_row) options_.on_row(row);
  rows_.push_back(std::move(row));
}

}  // namespace graft
