#include <cmath>

#include "base/clock.h"
#include "tensor/cuda_check.h"
#include "tensor/cuda_memory.h"
#include "tensor/stream_timer.h"

namespace graft {
namespace {

cudaEvent_t EventOf(void* event) { return static_cast<cudaEvent_t>(event); }

}  // namespace

StreamTimer::~StreamTimer() {
  for (void* event : events_) CUDA_CHECK(cudaEventDestroy(EventOf(event)));
}

int64_t StreamTimer::Mark() {
  if (stream_.device.is_cpu()) return SteadyClock::Get().NowNs();
  if (num_used_ == static_cast<int64_t>(events_.size())) {
    cudaEvent_t event = nullptr;
    CUDA_CHECK(cudaEventCreate(&event));
    events_.push_back(event);
  }
  CUDA_CHECK(cudaEventRecord(EventOf(events_[num_used_]), CudaStreamOf(stream_)));
  return num_used_++;
}

void StreamTimer::Collect() {
  Synchronize(stream_);
  for (const Span& span : spans_) {
    if (stream_.device.is_cpu()) {
      *span.total_ns += span.end - span.begin;
      continue;
    }
    float ms = 0.0f;
    CUDA_CHECK(cudaEventElapsedTime(&ms, EventOf(events_[span.begin]), EventOf(events_[span.end])));
    *span.total_ns += std::llround(static_cast<double>(ms) * 1e6);
  }
  spans_.clear();
  num_used_ = 0;
}

}  // namespace graft
