#include "kernels/common/bench.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "kernels/common/bench_data.h"
#include "kernels/common/op_test_util.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace bench_test {

const OpBenchOptions kQuick{.seconds_per_case = 0.001, .rotate_bytes = 1 << 20};

TEST(BenchTest, PeaksAreMeasuredForEveryDType) {
  ThreadPool threads(2);
  Stream stream{.device = {}, .cpu_threads = &threads};
  MachinePeaks peaks(int64_t{64} << 20, stream);
  for (int i = 0; i < 3; ++i) {  // beyond the end of the memory, and around
    EXPECT_GT(peaks.MeasureGbytesPerSecond(), 0.01);
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

TEST(BenchTest, AGpusRunsAreTimedTogether) {
  testing::ForFirstGpu([](Stream& stream) {
    OpBench bench(stream, kQuick);
    Buffer counts(64 * 4, stream.device);
    const Buffer source = OnDevice(std::vector<float>(64, 1.0f), stream);
    for (const bool can_capture : {true, false}) {
      std::set<int64_t> copies;
      bench.Add("copy", {.bytes = 8, .num_copies = 64, .can_capture = can_capture},
                [&](int64_t run) {
                  copies.insert(run % 64);
                  CopyOnDevice(counts.as<float>() + run % 64, source.data(), 4, stream);
                });
      EXPECT_GE(copies.size(), can_capture ? 64u : 2u);
    }
    std::vector<float> written(64);
    CopyFromDevice(written.data(), counts.data(), 64 * 4, stream);
    Synchronize(stream);
    EXPECT_EQ(written, std::vector<float>(64, 1.0f));
    const std::vector<OpBenchRow> rows = bench.TakeRows();
    ASSERT_EQ(rows.size(), 2u);
    for (const OpBenchRow& row : rows) {
      EXPECT_GT(row.median_us, 0.0);
      EXPECT_LT(row.median_us, 1e4);
      EXPECT_GT(row.peak_gbytes_per_s, 100.0);
    }
    MachinePeaks peaks(0, stream);
    EXPECT_GT(peaks.MeasureGflops(DType::kBF16), 1000.0);
    EXPECT_EQ(peaks.MeasureGflops(DType::kF32), 0.0);
  });
}

TEST(BenchTest, BuffersAreFilledToTheEnd) {
  ThreadPool threads(2);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const Buffer buffer = BenchBuffer(DType::kF32, 10007, stream);
  for (int64_t i = 0; i < 10007; ++i) {
    const float expected = static_cast<float>(i * 7919 % 1009) / 1009.0f - 0.5f;
    ASSERT_EQ(buffer.as<float>()[i], expected) << "element " << i;
  }
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

}  // namespace bench_test
}  // namespace graft
