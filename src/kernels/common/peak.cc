#include "kernels/common/peak.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "kernels/common/cpu_isa.h"

namespace graft {

GRAFT_CPU_OP(Peak, PeakArgs)

namespace {

// One measurement of bandwidth: long beside a fork-join, short beside a bench case.
constexpr int64_t kReadBytes = int64_t{48} << 20;
constexpr int64_t kIterations = 100000;

struct alignas(64) Sink {
  float value = 0.0f;
  double operations = 0.0;
};

}  // namespace

MachinePeaks::MachinePeaks(int64_t memory_bytes, Stream& stream)
    : memory_(std::max(memory_bytes, kReadBytes)), stream_(stream) {
  // Written once, or all of it would be the same page of zeros.
  int64_t* words = memory_.as<int64_t>();
  stream_.cpu_threads->ParallelFor(memory_.bytes() / 8, 512, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) words[i] = i;
  });
}

double MachinePeaks::MeasureReadGbytesPerSecond() {
  const int num_threads = stream_.cpu_threads->num_threads();
  const int64_t share = kReadBytes / num_threads / 256 * 256;
  if (position_ + share * num_threads > memory_.bytes()) position_ = 0;
  std::vector<Sink> sinks(num_threads);
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  stream_.cpu_threads->Run([&](int worker_idx) {
    PeakCpu({.memory = memory_.as<char>() + position_ + worker_idx * share,
             .bytes = share,
             .sink = &sinks[worker_idx].value},
            stream_);
  });
  const int64_t ns = SteadyClock::Get().NowNs() - begin_ns;
  position_ += share * num_threads;
  return static_cast<double>(share * num_threads) / static_cast<double>(std::max<int64_t>(ns, 1));
}

double MachinePeaks::MeasureGflops(DType dtype) {
  std::vector<Sink> sinks(stream_.cpu_threads->num_threads());
  const int64_t begin_ns = SteadyClock::Get().NowNs();
  stream_.cpu_threads->Run([&](int worker_idx) {
    PeakCpu({.dtype = dtype,
             .iterations = kIterations,
             .operations = &sinks[worker_idx].operations,
             .sink = &sinks[worker_idx].value},
            stream_);
  });
  const int64_t ns = SteadyClock::Get().NowNs() - begin_ns;
  double operations = 0.0;
  for (const Sink& sink : sinks) operations += sink.operations;
  return operations / static_cast<double>(std::max<int64_t>(ns, 1));
}

}  // namespace graft
