// `graft-bench ops`: times every op on buffers rotated past the last-level cache and states what
// share of the machine's roof it reaches (peak.h). On the CPU the roof is measured between the runs
// of each case, so that both see the same machine. On a GPU runs are captured in a graph and timed
// together by the device, as a model's step launches them; the roof is measured once. One thread.
//
// An op's op_bench.cc defines BenchX(OpBench&), declared in bench_ops.h:
//   bench.Add("m 8, k 2048, n 2048, bf16", {.bytes = ..., .flops = ..., .dtype = DType::kBF16,
//                                           .num_copies = num_copies},
//             [&](int64_t run) { Gemm(args_of(run % num_copies), bench.stream()); });
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/peak/peak.h"
#include "tensor/buffer.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

// What a case's name says, for programs; fields that do not apply are left as they are.
struct OpBenchLabels {
  int64_t rows = 0;
  int32_t rank = 0;
  std::string law;     // how rows are dealt out to adapters
  std::string method;  // ours or a baseline
};

struct OpBenchWork {
  double bytes = 0.0;  // read and written, each once
  double flops = 0.0;
  DType dtype = DType::kF32;  // the multiply-add peak of this type applies
  // Runs after which the same buffers come again: on a GPU, at least so many are timed together.
  int64_t num_copies = 1;
  bool can_capture = true;  // false: the op is launched and timed run by run
  OpBenchLabels labels;
};

struct OpBenchRow {
  std::string op;
  std::string name;  // the case: shape, dtype, law
  OpBenchWork work;
  double median_us = 0.0;
  double gbytes_per_s = 0.0;  // bytes that must move / median
  double gflops = 0.0;
  double peak_gbytes_per_s = 0.0;  // the roof beside this case
  double peak_gflops = 0.0;        // 0 where the case counts no operations
  // The least time that the roof allows over the median: 1 is the machine's limit. Above 1: the
  // bytes did not all come from memory.
  double share_of_peak = 0.0;
};

struct OpBenchOptions {
  double seconds_per_case = 0.15;
  // Copies of a case's buffers amount to at least this, or four last-level caches if more.
  int64_t rotate_bytes = int64_t{128} << 20;
  std::function<void(const OpBenchRow&)> on_row;  // may be empty; called as rows come
};

class OpBench {
 public:
  OpBench(Stream& stream, const OpBenchOptions& options);

  // Names the op of the rows to come.
  void SetOp(std::string op) { op_ = std::move(op); }
  // Calls run(0), run(1), ... for the time of a case (on a GPU: captures them and replays the
  // graph) and adds its row. A run takes other buffers than the num_copies(bytes) - 1 runs before
  // it.
  void Add(std::string name, const OpBenchWork& work, const std::function<void(int64_t)>& run);

  // How many copies of `bytes` a case rotates over.
  int64_t num_copies(int64_t bytes) const;
  int64_t rotate_bytes() const { return rotate_bytes_; }
  Stream& stream() { return stream_; }
  bool is_cpu() const { return stream_.device.is_cpu(); }
  std::vector<OpBenchRow> TakeRows() { return std::move(rows_); }

 private:
  using Run = std::function<void(int64_t)>;

  // Each returns the microseconds of runs and fills in the row's roof.
  std::vector<double> TimeOnCpu(const Run& run, OpBenchRow* row);
  std::vector<double> TimeOnGpu(const Run& run, OpBenchRow* row);
  std::vector<double> TimeLaunches(const Run& run);
  std::vector<double> TimeGraph(int64_t num_copies, const Run& run);

  Stream& stream_;
  const OpBenchOptions options_;
  const int64_t rotate_bytes_;
  MachinePeaks peaks_;
  Buffer head_start_;  // of a GPU: see TimeLaunches
  std::string op_;
  std::vector<OpBenchRow> rows_;
};

struct NamedOpBench {
  const char* op;
  void (*run)(OpBench&);
};

// Runs the benches of all ops with `filter` in their name: those in kernels/, then `more`.
std::vector<OpBenchRow> BenchOps(const std::string& filter, Stream& stream,
                                 const OpBenchOptions& options,
                                 std::span<const NamedOpBench> more = {});

}  // namespace graft
