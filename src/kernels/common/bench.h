// `graft bench ops`: times every op on buffers rotated past the last-level cache and states what
// share of the machine's roof it reaches. The roof (read bandwidth, multiply-adds per second) is
// measured between the runs of each case, so that both see the same machine. One thread.
//
// An op's op_bench.cc defines BenchX(OpBench&), declared in bench_ops.h:
//   bench.Add("m 8, k 2048, n 2048, bf16", {.bytes = ..., .flops = ..., .dtype = DType::kBF16},
//             [&](int64_t run) { Gemm(args_of(run % num_copies), bench.stream()); });
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/common/peak.h"
#include "tensor/dtype.h"
#include "tensor/stream.h"

namespace graft {

struct OpBenchRow {
  std::string op;
  std::string name;  // the case: shape, dtype, law
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

struct OpBenchWork {
  double bytes = 0.0;  // read and written, each once
  double flops = 0.0;
  DType dtype = DType::kF32;  // whose multiply-add peak applies
};

class OpBench {
 public:
  OpBench(Stream& stream, const OpBenchOptions& options);

  // Names the op of the rows to come.
  void SetOp(std::string op) { op_ = std::move(op); }
  // Calls run(0), run(1), ... for the time of a case and adds its row. A run takes other buffers
  // than the num_copies(bytes) - 1 runs before it.
  void Add(std::string name, const OpBenchWork& work, const std::function<void(int64_t)>& run);

  // How many copies of `bytes` a case rotates over.
  int64_t num_copies(int64_t bytes) const;
  int64_t rotate_bytes() const { return rotate_bytes_; }
  Stream& stream() { return stream_; }
  std::vector<OpBenchRow> TakeRows() { return std::move(rows_); }

 private:
  Stream& stream_;
  const OpBenchOptions options_;
  const int64_t rotate_bytes_;
  MachinePeaks peaks_;
  std::string op_;
  std::vector<OpBenchRow> rows_;
};

// Runs the benches of all ops whose name contains `filter`.
std::vector<OpBenchRow> BenchOps(const std::string& filter, Stream& stream,
                                 const OpBenchOptions& options);

}  // namespace graft
