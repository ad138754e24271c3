#include "assist/assist_worker.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tensor/shared_memory.h"

namespace graft {

void AssistWorker::Serve(int64_t until_ns) {
  prctl(PR_SET_TIMERSLACK, 1000);  // else a sleep of 20 us lasts 70
  while (const AssistJob* job = exchange_.Take(worker_, until_ns, &number_)) {
    Compute(*job);
    exchange_.Answer(worker_, number_);
  }
}

void AssistWorker::MakeTables(const AssistJob& job, int32_t begin, int32_t end, int32_t* first_row,
                              int32_t* num_rows) {
  segments_.clear();
  matrices_.clear();
  row_tables_.resize(kAssistPlacesMax);
  int32_t before = 0;  // rows of the segments so far
  int32_t last_row = 0;
  for (int32_t i = 0; i < job.num_segments; ++i) {
    const AssistJob::Segment& from = job.segments[i];
    const int32_t row_begin = from.row_begin + std::max(begin - before, 0);
    const int32_t row_end = std::min(from.row_end, from.row_begin + end - before);
    before += from.row_end - from.row_begin;
    if (row_begin >= row_end) continue;
    if (segments_.empty()) *first_row = row_begin;
    last_row = row_end;
    const auto slot = static_cast<int32_t>(segments_.size());
    segments_.push_back({row_begin - *first_row, row_end - *first_row, slot});
    for (int32_t s = 0; s < job.num_slices; ++s) {
      const int32_t places = from.places_begin[s];
      for (int32_t j = places; j < places + 2 * from.rank[s]; ++j) {
        row_tables_[static_cast<size_t>(j)] =
            reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(rows_) + job.places[j]);
      }
      const void* const* const table = row_tables_.data() + places;
      // The stream scales when it adds.
      matrices_.push_back({table, table + from.rank[s], from.rank[s], 1.0f});
    }
  }
  *num_rows = segments_.empty() ? 0 : last_row - *first_row;
}

void AssistWorker::Compute(const AssistJob& job) {
  int32_t first_row = 0;
  int32_t num_rows = 0;
  MakeTables(job, job.share_begin[worker_], job.share_begin[worker_ + 1], &first_row, &num_rows);
  exchange_.WaitForExport(number_);
  if (num_rows == 0) return;
  int32_t rank_max = 0;
  for (const LoraMatrix& matrix : matrices_) rank_max = std::max(rank_max, matrix.rank);
  h_.resize(static_cast<size_t>(int64_t{job.num_slices} * num_rows * rank_max));
  float* const delta = exchange_.delta() + first_row * job.delta_columns;
  for (const LoraSegment& segment : segments_) {  // rows between them are not ours
    std::memset(delta + segment.row_begin * job.delta_columns, 0,
                static_cast<size_t>((segment.row_end - segment.row_begin) * job.delta_columns *
                                    int64_t{sizeof(float)}));
  }
  const int64_t x_bytes = job.x_is_fp32 ? int64_t{sizeof(float)} : DTypeBytes(job.dtype);
  LoraArgs args{.dtype = job.dtype,
                .segments = segments_.data(),
                .num_segments = static_cast<int32_t>(segments_.size()),
                .matrices = matrices_.data(),
                .matrices_stride = job.num_slices,
                .num_slices = job.num_slices,
                .x = exchange_.x() + first_row * job.k * x_bytes,
                .x_stride = job.k,
                .k = job.k,
                .h = h_.data(),
                .h_stride = rank_max,
                .num_rows = num_rows,
                .y = delta,
                .y_stride = job.delta_columns,
                .x_is_fp32 = job.x_is_fp32};
  std::copy(job.slice_begin, job.slice_begin + kLoraSlicesMax, args.slice_begin);
  std::copy(job.slice_n, job.slice_n + kLoraSlicesMax, args.slice_n);
  Stream stream{.device = {}, .cpu_threads = &threads_};
  Lora(args, stream);
}

namespace {

// One core for each worker, from the last one down: the first ones are the server's.
void PinToCore(int32_t worker) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  const int count = CPU_COUNT(&allowed);
  int wanted = count - 1 - worker % count;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || wanted-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);  // a worker that may not is a worker all the same
    return;
  }
}

}  // namespace

Status RunAssistProcess(const AssistProcessOptions& options) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGINT, SIG_IGN);  // of a terminal, for the whole group: the server ends first
  if (getppid() != options.parent) return OkStatus();
  PinToCore(options.worker);
  ASSIGN_OR_RETURN(const SharedMemory memory, SharedMemory::Map(options.exchange));
  ASSIGN_OR_RETURN(const SharedMemory store, SharedMemory::Map(options.store));
  AssistExchange exchange(memory.data());
  AssistWorker(exchange, options.worker, store.data()).Serve();
  return OkStatus();
}

}  // namespace graft
