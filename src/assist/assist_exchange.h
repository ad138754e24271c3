// AssistExchange: one stretch of memory that the executor and the workers of the CPU assist share.
// It holds jobs, flags, rows of x and the workers' answers. A GPU sees it, and worker processes map
// it. A job is one projection of one step, for the rows of adapters that are still on their way to
// the device. Each flag has one writer. The engine's thread posts jobs; each worker reads them on
// its own thread.
#pragma once

#include <cstdint>

#include "kernels/host_exchange/host_exchange.h"
#include "kernels/lora/lora.h"
#include "tensor/dtype.h"

namespace graft {

struct AssistLimits {
  int32_t rows_max = 0;       // of a step
  int64_t x_row_bytes = 0;    // the widest
  int64_t delta_columns = 0;  // the most
  int32_t num_workers = 1;    // at most kHostFlagsMax
};

// How many places of rows a job has: sixteen segments of rank 64 on three modules.
inline constexpr int32_t kAssistPlacesMax = 6144;
// Jobs that can be posted before the first of them is answered.
inline constexpr uint32_t kAssistJobs = 16;

// The rows of a job are those of its segments, one after the other, and its shares are stretches of
// them: share i is worker i's.
struct AssistJob {
  struct Segment {
    int32_t row_begin = 0;
    int32_t row_end = 0;
    int32_t rank[kLoraSlicesMax] = {};
    // Where each module's places begin: `rank` places of rows of A, then as many of B^T.
    int32_t places_begin[kLoraSlicesMax] = {};
  };

  uint32_t number = 0;     // written last: the job is whole
  int32_t num_shares = 0;  // workers with a share; the rest is for them alone
  DType dtype = DType::kF32;
  bool x_is_fp32 = false;
  int64_t k = 0;              // x is [rows_max, k]
  int64_t delta_columns = 0;  // the answer is [rows_max, delta_columns]
  int32_t num_slices = 0;
  int64_t slice_begin[kLoraSlicesMax] = {};
  int64_t slice_n[kLoraSlicesMax] = {};
  int32_t num_segments = 0;
  Segment segments[kHostSegmentsMax];
  int32_t share_begin[kHostFlagsMax + 1] = {};
  uint64_t places[kAssistPlacesMax];  // see AssistWorker
};

class AssistExchange {
 public:
  static int64_t Bytes(const AssistLimits& limits);
  // Zeroed memory of that size, on a border of 64, that outlives it.
  AssistExchange(const AssistLimits& limits, char* memory);
  // The exchange that another process made in this memory.
  explicit AssistExchange(char* memory);

  const AssistLimits& limits() const;
  char* x() const { return memory_ + begins_.x; }
  float* delta() const { return reinterpret_cast<float*>(memory_ + begins_.delta); }

  // ---- The engine's thread ----
  // Returns the number of the next job. Waits until all but the last `ahead` jobs are answered, so
  // that the job's place is free.
  uint32_t NextNumber(uint32_t ahead) const;
  // To be filled, but for its number and shares, before Post.
  AssistJob& Prepare(uint32_t number);
  void Post(uint32_t number, int32_t num_shares);
  // Set to the job's number when its rows of x are there.
  uint32_t* exported();
  // Worker i's flag is answered()[i * kFlagStride].
  static constexpr int64_t kFlagStride = 16;
  uint32_t* answered();
  // Ends Serve of all workers.
  void Stop();

  // ---- A worker ----
  // Returns the first job after `number` that the worker has a share of and has not answered. Waits
  // for one until the steady clock shows `until_ns`. Null if none came by then, and after Stop.
  // Sets *number to the last job looked at.
  const AssistJob* Take(int32_t worker, int64_t until_ns, uint32_t* number);
  // The number at which a worker begins to look.
  uint32_t FirstNumber() const;
  void WaitForExport(uint32_t number) const;
  void Answer(int32_t worker, uint32_t number);

 private:
  struct Header;
  // The offsets at which the parts lie.
  struct Begins {
    int64_t jobs = 0;
    int64_t x = 0;
    int64_t delta = 0;
    int64_t end = 0;
  };
  static Begins BeginsOf(const AssistLimits& limits);
  Header& header() const { return *reinterpret_cast<Header*>(memory_); }
  AssistJob& job(uint32_t number) const;
  void SleepUntilPost(uint32_t posted, int64_t sleep_ns);

  char* const memory_;
  const Begins begins_;
};

}  // namespace graft
