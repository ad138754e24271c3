// AssistWorker computes one worker's shares of the CPU assist's jobs. It uses the CPU's LoRA
// kernels and reads an adapter's rows directly from the host's memory. It runs on a thread of the
// server, or in a process that maps the exchange and the host store. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "assist/assist_exchange.h"
#include "base/status.h"
#include "base/thread_pool.h"

namespace graft {

class AssistWorker {
 public:
  // A job's places count from `rows`: addresses where that is null. Kernels run on `num_threads`.
  AssistWorker(AssistExchange& exchange, int32_t worker, const char* rows, int num_threads = 1)
      : exchange_(exchange),
        worker_(worker),
        rows_(rows),
        number_(exchange.FirstNumber()),
        threads_(num_threads) {}

  // Works until the exchange stops, or until `until_ns` (steady clock) and all jobs are done.
  void Serve(int64_t until_ns = INT64_MAX);

 private:
  void Compute(const AssistJob& job);
  // Fills segments_, matrices_ and row_tables_ for rows [begin, end) of the job's. The first of
  // them is row *first_row of the step.
  void MakeTables(const AssistJob& job, int32_t begin, int32_t end, int32_t* first_row,
                  int32_t* num_rows);

  AssistExchange& exchange_;
  const int32_t worker_;
  const char* const rows_;
  uint32_t number_;
  ThreadPool threads_;
  // Scratch of one job.
  std::vector<LoraSegment> segments_;
  std::vector<LoraMatrix> matrices_;  // [segments][slices]
  std::vector<const void*> row_tables_;
  std::vector<float> h_;
};

// A worker process: what `graft assist-worker` runs. Ends with its parent.
struct AssistProcessOptions {
  int exchange = -1;  // descriptors
  int store = -1;
  int32_t worker = 0;
  int64_t parent = 0;  // process id
};
Status RunAssistProcess(const AssistProcessOptions& options);

}  // namespace graft
