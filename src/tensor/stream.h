// Stream: where an op runs: a device and, on the CPU, the threads that it may use. Ops on one
// stream run in order. On the CPU they have finished when the call returns, on a GPU when
// Synchronize returns. One thread at a time.
#pragma once

#include "base/thread_pool.h"
#include "tensor/device.h"

namespace graft {

struct Stream {
  Device device;
  // Borrowed and never null: ops on the CPU run on them, and with a GPU what the host does beside
  // it (converting weights).
  ThreadPool* cpu_threads = nullptr;
  void* cuda_stream = nullptr;  // cudaStream_t, borrowed (cuda_memory.h makes one); null on the CPU
};

}  // namespace graft
