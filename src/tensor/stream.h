// Where an op runs: a device, and on the CPU the threads it may use. Ops on one stream run in
// order; on the CPU they have finished when the call returns. One thread at a time.
#pragma once

#include "base/thread_pool.h"
#include "tensor/device.h"

namespace graft {

struct Stream {
  Device device;
  ThreadPool* cpu_threads = nullptr;  // borrowed; never null on the CPU
};

}  // namespace graft
