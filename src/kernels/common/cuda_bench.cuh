// For the device benches (op/cuda_bench.cu). Times launches as a model's step makes them: one after
// the other in a CUDA graph. The operands are either in the cache, as when the kernel before has
// just written them, or not.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/buffer.h"
#include "tensor/cuda_check.h"
#include "tensor/cuda_memory.h"

namespace graft::cuda_bench {

inline constexpr double kBytesPerSecond = 4.2e12;  // measured copy, H200
inline constexpr int64_t kColdBytes = int64_t{200} << 20;
inline constexpr int kLaunchesPerGraph = 32;
inline constexpr int kReplays = 25;

// Fills with numbers in [-0.5, 0.5], so that a kernel reads no zeros.
inline Buffer RandomFloats(int64_t n, const Device& device) {
  std::vector<float> values(static_cast<size_t>(n));
  uint32_t state = 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(state >> 8) * 0x1.0p-24f - 0.5f;
  }
  Buffer buffer(n * 4, device);
  CUDA_CHECK(cudaMemcpy(buffer.data(), values.data(), values.size() * 4, cudaMemcpyHostToDevice));
  return buffer;
}

// Median microseconds of one launch(i) among num_launches in a graph.
template <typename Function>
double MicrosecondsPerLaunch(const Stream& stream, int num_launches, const Function& launch) {
  cudaStream_t cuda_stream = CudaStreamOf(stream);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  CUDA_CHECK(cudaStreamBeginCapture(cuda_stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < num_launches; ++i) launch(i);
  CUDA_CHECK(cudaStreamEndCapture(cuda_stream, &graph));
  CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
  cudaEvent_t begin = nullptr, end = nullptr;
  CUDA_CHECK(cudaEventCreate(&begin));
  CUDA_CHECK(cudaEventCreate(&end));
  std::vector<double> times;
  // Long graphs need fewer replays: once 2 s are spent, three measured ones are enough.
  float spent_ms = 0.0f;
  for (int replay = 0; replay < kReplays + 3 && (replay < 6 || spent_ms < 2000.0f); ++replay) {
    CUDA_CHECK(cudaEventRecord(begin, cuda_stream));
    CUDA_CHECK(cudaGraphLaunch(executable, cuda_stream));
    CUDA_CHECK(cudaEventRecord(end, cuda_stream));
    CUDA_CHECK(cudaEventSynchronize(end));
    float ms = 0.0f;
    CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
    spent_ms += ms;
    if (replay >= 3) times.push_back(ms * 1e3 / num_launches);
  }
  CUDA_CHECK(cudaEventDestroy(begin));
  CUDA_CHECK(cudaEventDestroy(end));
  CUDA_CHECK(cudaGraphExecDestroy(executable));
  CUDA_CHECK(cudaGraphDestroy(graph));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// How many copies of operands of `bytes` bytes are more than the cache holds.
inline int64_t NumColdCopies(int64_t bytes) { return kColdBytes / bytes + 2; }

// Runs launch(copy) over all copies, and over the first one alone, and prints a line for each.
template <typename Function>
void Report(const std::string& name, int64_t bytes, const Stream& stream, const Function& launch) {
  const auto num_copies = static_cast<int>(NumColdCopies(bytes));
  const int num_launches = std::max(num_copies, kLaunchesPerGraph);
  const double cold_us =
      MicrosecondsPerLaunch(stream, num_launches, [&](int i) { launch(i % num_copies); });
  const double hot_us = MicrosecondsPerLaunch(stream, kLaunchesPerGraph, [&](int) { launch(0); });
  const double floor_us = static_cast<double>(bytes) / kBytesPerSecond * 1e6;
  std::printf("%-44s cold %7.2f us %6.0f GB/s %4.0f%% of the floor | cached %7.2f us\n",
              name.c_str(), cold_us, static_cast<double>(bytes) / cold_us * 1e-3,
              100.0 * floor_us / cold_us, hot_us);
}

}  // namespace graft::cuda_bench
