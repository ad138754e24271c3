// What this machine can do, measured: the roofs under which `graft bench ops` puts every kernel.
// The reading loop and the multiply-add loops are the fastest we know for the active instruction
// set; one call takes about a millisecond, so that a bench can repeat it between its own runs (a
// shared host's bandwidth drifts by a factor of two within minutes).
#pragma once

#include <cstdint>

#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace graft {

class MachinePeaks {
 public:
  // `memory_bytes` are allocated and read in turns; several times the last-level cache.
  MachinePeaks(int64_t memory_bytes, Stream& stream);

  // All threads, each reading its share of the next stretch of the memory front to back.
  double MeasureReadGbytesPerSecond();
  // All threads, multiply-adds (two operations) on registers alone, in fp32 or on bf16 pairs.
  double MeasureGflops(DType dtype);

 private:
  Buffer memory_;
  int64_t position_ = 0;
  Stream& stream_;
};

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
