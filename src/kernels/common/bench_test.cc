#include "kernels/common/bench.h"

#include <gtest/gtest.h>

#include <vector>

namespace graft {
namespace {

const OpBenchOptions kQuick{.seconds_per_case = 0.001, .rotate_bytes = 1 << 20};

TEST(BenchTest, PeaksAreMeasuredForEveryDType) {
  ThreadPool threads(2);
  Stream stream{.device = {}, .cpu_threads = &threads};
  MachinePeaks peaks(int64_t{64} << 20, stream);
  for (int i = 0; i < 3; ++i) {  // past the end of the memory and around
    EXPECT_GT(peaks.MeasureReadGbytesPerSecond(), 0.01);
  }
  EXPECT_GT(peaks.MeasureGflops(DType::kF32), 0.01);
  EXPECT_GT(peaks.MeasureGflops(DType::kBF16), 0.01);
}

TEST(BenchTest, RowsCarryWhatWasMeasured) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<OpBenchRow> seen;
  OpBenchOptions options = kQuick;
  options.on_row = [&](const OpBenchRow& row) { seen.push_back(row); };
  OpBench bench(stream, options);
  bench.SetOp("sleep");
  std::vector<int64_t> runs;
  bench.Add("case", {.bytes = 1e6, .flops = 1e6}, [&](int64_t run) { runs.push_back(run); });
  ASSERT_GE(runs.size(), 2u);
  for (size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(runs[i], static_cast<int64_t>(i));
  const std::vector<OpBenchRow> rows = bench.TakeRows();
  ASSERT_EQ(rows.size(), 1u);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(rows[0].op, "sleep");
  EXPECT_EQ(rows[0].name, "case");
  EXPECT_GT(rows[0].peak_gbytes_per_s, 0.0);
  EXPECT_GT(rows[0].peak_gflops, 0.0);
  EXPECT_GT(rows[0].share_of_peak, 0.0);
}

TEST(BenchTest, CopiesReachPastTheCache) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const OpBench bench(stream, kQuick);
  EXPECT_EQ(bench.num_copies(bench.rotate_bytes() * 2), 2);
  EXPECT_GE(bench.num_copies(1 << 20) * (1 << 20), bench.rotate_bytes());
}

TEST(BenchTest, AFilterThatNamesNoOpRunsNothing) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  EXPECT_TRUE(BenchOps("no such op", stream, kQuick).empty());
}

}  // namespace
}  // namespace graft
