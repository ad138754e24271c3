// The hand-off by itself: a row goes out, a thread of the host answers at once, and the stream
// waits for the answer, either by the polling kernel or by the driver's wait for a word of memory.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "kernels/common/cuda_bench.cuh"
#include "kernels/host_exchange/host_exchange.h"

namespace graft::cuda_bench {
namespace {

constexpr int64_t kColumns = 4096;
constexpr int kRoundTrips = 200;

// cuStreamWaitValue32, taken from the loaded driver.
using WaitValue = int (*)(cudaStream_t, unsigned long long, uint32_t, unsigned);
constexpr unsigned kWaitUntilReached = 0;  // CU_STREAM_WAIT_VALUE_GEQ

WaitValue FindWaitValue() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  CUDA_CHECK(cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &function, 12000,
                                              cudaEnableDefault, &found));
  return found == cudaDriverEntryPointSuccess ? reinterpret_cast<WaitValue>(function) : nullptr;
}

class Echo {
 public:
  Echo(uint32_t* asked, uint32_t* answered)
      : thread_([this, asked, answered] {
          for (uint32_t step = 1; !stopping_; ++step) {
            while (!HasReached(__atomic_load_n(asked, __ATOMIC_ACQUIRE), step)) {
              if (stopping_) return;
            }
            __atomic_store_n(answered, step, __ATOMIC_RELEASE);
          }
        }) {}
  ~Echo() {
    stopping_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// Microseconds of a round trip. All of them are queued at once, as in a step.
template <typename Wait>
void ReportRoundTrips(const char* name, int32_t num_rows, Stream& stream, const Wait& wait) {
  const PinnedBuffer flags(4096);
  const PinnedBuffer out(num_rows * kColumns * 2);
  const Buffer x = RandomFloats(num_rows * kColumns, stream.device);
  Buffer num_done(4, stream.device);
  uint32_t* const asked = flags.as<uint32_t>();
  uint32_t* const answered = asked + 512;
  const Echo echo(asked, answered);
  HostSegments rows;
  rows.segments[rows.count++] = {0, num_rows, {1.0f}};
  uint32_t step = 0;
  std::vector<double> times;
  for (int repeat = 0; repeat < 10; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kRoundTrips; ++i) {
      ++step;
      HostExport({.rows = rows,
                  .x = x.data(),
                  .x_stride = kColumns,
                  .k = kColumns,
                  .dtype = DType::kBF16,
                  .out = out.as<char>(),
                  .flag = asked,
                  .step = step,
                  .num_done = num_done.as<uint32_t>()},
                 stream);
      wait(answered, step);
    }
    Synchronize(stream);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    times.push_back(took.count() / kRoundTrips);
  }
  std::sort(times.begin(), times.end());
  std::printf("%-28s %4d rows  %7.2f us a round trip\n", name, num_rows, times[times.size() / 2]);
}

// What it costs to add answers that come over the bus.
void ReportAdd(int32_t num_rows, int64_t columns, Stream& stream) {
  const PinnedBuffer delta(num_rows * columns * 4);
  Buffer y(num_rows * columns * 4, stream.device);
  HostAddArgs args{
      .delta = delta.as<float>(), .delta_stride = columns, .y = y.as<float>(), .y_stride = columns};
  args.rows.segments[args.rows.count++] = {0, num_rows, {1.0f}};
  args.slice_n[0] = columns;
  const double us = MicrosecondsPerLaunch(stream, 8, [&](int) { HostAdd(args, stream); });
  std::printf("add %4d rows of %5ld          %7.2f us, %5.1f GB/s of the bus\n", num_rows,
              static_cast<long>(columns), us,
              static_cast<double>(num_rows * columns * 4) / us * 1e-3);
}

void Main() {
  ThreadPool threads(1);
  OwnedStream stream({DeviceKind::kCuda, 0}, &threads);
  const WaitValue wait_value = FindWaitValue();
  for (const int32_t num_rows : {1, 128}) {
    ReportRoundTrips("polling kernel", num_rows, stream.get(),
                     [&](uint32_t* answered, uint32_t step) {
                       HostWait({.flags = answered, .num_flags = 1, .step = step}, stream.get());
                     });
    if (wait_value == nullptr) continue;
    ReportRoundTrips(
        "driver's wait", num_rows, stream.get(), [&](uint32_t* answered, uint32_t step) {
          const auto address = reinterpret_cast<unsigned long long>(answered);
          CHECK_EQ(wait_value(CudaStreamOf(stream.get()), address, step, kWaitUntilReached), 0);
        });
  }
  ReportAdd(128, 12288, stream.get());
  ReportAdd(128, 22016, stream.get());
  ReportAdd(1, 12288, stream.get());
}

}  // namespace
}  // namespace graft::cuda_bench

int main() { graft::cuda_bench::Main(); }
