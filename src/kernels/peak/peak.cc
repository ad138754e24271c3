#include "kernels/peak/peak.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "kernels/common/bench_data.h"
#include "kernels/common/cpu_isa.h"
#include "kernels/gemm/gemm.h"
#include "tensor/cuda_memory.h"
#include "tensor/stream_timer.h"

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

// Median nanoseconds of the work that `launch` puts on the stream.
template <typename Function>
double MedianNs(const Stream& stream, const Function& launch) {
  constexpr int kWarmUps = 2;
  constexpr int kReadings = 9;
  StreamTimer timer(stream);
  std::vector<int64_t> times_ns;
  for (int i = 0; i < kWarmUps + kReadings; ++i) {
    int64_t ns = 0;
    {
      const StreamTimer::Scope scope(&timer, &ns);
      launch();
    }
    timer.Collect();
    if (i >= kWarmUps) times_ns.push_back(ns);
  }
  std::nth_element(times_ns.begin(), times_ns.begin() + kReadings / 2, times_ns.end());
  return static_cast<double>(times_ns[kReadings / 2]);
}

double MeasureGemmGflops(Stream& stream) {
  constexpr int64_t kN = 8192;
  const DrawnRows part{.n = kN, .seed = 1};
  const GemmWeight weight = GemmWeight::Random({&part, 1}, kN, 1.0f, DType::kBF16, stream);
  const Buffer x = BenchBuffer(DType::kBF16, kN * kN, stream);
  Buffer y(kN * kN * 4, stream.device);
  const double ns = MedianNs(stream, [&] {
    Gemm({.x = x.data(),
          .x_stride = kN,
          .m = kN,
          .weight = &weight,
          .y = y.as<float>(),
          .y_stride = kN},
         stream);
  });
  return 2.0 * kN * kN * kN / ns;
}

}  // namespace

MachinePeaks::MachinePeaks(int64_t memory_bytes, Stream& stream) : stream_(stream) {
  if (!stream.device.is_cpu()) return;
  memory_ = Buffer(std::max(memory_bytes, kReadBytes));
  // Written once, or all of it would be the same page of zeros.
  int64_t* words = memory_.as<int64_t>();
  stream_.cpu_threads->ParallelFor(memory_.bytes() / 8, 512, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) words[i] = i;
  });
}

double MachinePeaks::MeasureGbytesPerSecond() {
  if (stream_.device.is_cpu()) return ReadGbytesPerSecond();
  if (gpu_gbytes_per_s_ == 0.0) gpu_gbytes_per_s_ = MeasureCopyGbytesPerSecond(stream_);
  return gpu_gbytes_per_s_;
}

double MachinePeaks::MeasureGflops(DType dtype) {
  if (stream_.device.is_cpu()) return MultiplyAddGflops(dtype);
  if (dtype != DType::kBF16) return 0.0;
  if (gpu_gflops_ == 0.0) gpu_gflops_ = MeasureGemmGflops(stream_);
  return gpu_gflops_;
}

double MachinePeaks::ReadGbytesPerSecond() {
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

double MachinePeaks::MultiplyAddGflops(DType dtype) {
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

double MeasureCopyGbytesPerSecond(const Stream& stream) {
  constexpr int64_t kBytes = int64_t{1} << 30;
  Buffer from(kBytes, stream.device);
  Buffer to(kBytes, stream.device);
  const double ns = MedianNs(stream, [&] { CopyOnDevice(to.data(), from.data(), kBytes, stream); });
  return 2.0 * kBytes / ns;
}

}  // namespace graft
