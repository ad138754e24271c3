// What this machine can do, measured: the roofs under which `graft-bench ops` puts every kernel.
// On the CPU the reading loop and the multiply-add loops are the fastest we know for the active
// instruction set; one call takes about a millisecond, so that a bench can repeat it between its
// own runs (a shared host's bandwidth drifts by a factor of two within minutes). On a GPU they are
// a large copy and a large product of our own, measured once. One thread.
#pragma once

#include <cstdint>

#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace graft {

class MachinePeaks {
 public:
  // On the CPU `memory_bytes` are allocated and read in turns; several times the last-level cache.
  MachinePeaks(int64_t memory_bytes, Stream& stream);

  // CPU: all threads, each reading its share of the next stretch of the memory front to back.
  // GPU: MeasureCopyGbytesPerSecond.
  double MeasureGbytesPerSecond();
  // CPU: all threads, multiply-adds (two operations) on registers alone, in fp32 or on bf16 pairs.
  // GPU: a product of 8192 x 8192 bf16 matrices; 0 for other dtypes.
  double MeasureGflops(DType dtype);

 private:
  double ReadGbytesPerSecond();
  double MultiplyAddGflops(DType dtype);

  Buffer memory_;
  int64_t position_ = 0;
  Stream& stream_;
  double gpu_gbytes_per_s_ = 0.0;  // once measured
  double gpu_gflops_ = 0.0;
};

// GB/s of a large copy within the device's memory, bytes read and bytes written: the bandwidth that
// floors are reckoned with on a GPU. The median of some.
double MeasureCopyGbytesPerSecond(const Stream& stream);

// What one compiled copy runs on one thread.
struct PeakArgs {
  const char* memory = nullptr;  // null: multiply-adds; else `bytes` to read
  int64_t bytes = 0;             // a multiple of 256
  DType dtype = DType::kF32;
  int64_t iterations = 0;
  double* operations = nullptr;  // out: how many operations were done
  float* sink = nullptr;         // out: a value that depends on all of the work
};

}  // namespace graft
