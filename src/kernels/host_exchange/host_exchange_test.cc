#include "kernels/host_exchange/host_exchange.h"

#include <gtest/gtest.h>

#include <cmath>
#include <thread>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace host_exchange_test {

using testing::BitEqual;
using testing::ForEachDevice;
using testing::Input;
using testing::IsClose;
using testing::kF32Tolerance;
using testing::Output;
using testing::Reference;
using testing::Shared;

struct Case {
  std::vector<std::pair<int32_t, int32_t>> rows;
  int64_t num_rows;
  int64_t k;  // also the number of columns of the first slice
  int64_t pad;
  int64_t misalign;
};

const Case kCases[] = {{{{0, 1}}, 1, 8, 0, 0},
                       {{{0, 3}}, 3, 1, 1, 1},
                       {{{1, 1}}, 2, 16, 0, 0},
                       {{{1, 4}, {6, 7}}, 9, 37, 3, 1},
                       {{{0, 2}, {2, 2}, {2, 5}}, 5, 64, 8, 0},
                       {{{2, 70}, {71, 129}}, 130, 1352, 8, 0},
                       {{{0, 5}}, 5, 11008, 0, 0},
                       {{{0, 7}}, 9, 4099, 5, 3}};

HostSegments SegmentsOf(const Case& c) {
  HostSegments rows;
  for (const auto& [begin, end] : c.rows) {
    const auto number = static_cast<float>(rows.count + 1);
    rows.segments[rows.count++] = {begin, end, {0.5f * number, 0.0f, -1.25f * number}};
  }
  return rows;
}

// The segment that a row is in, or -1.
int SegmentOf(const HostSegments& rows, int64_t row) {
  for (int32_t i = 0; i < rows.count; ++i) {
    if (row >= rows.segments[i].row_begin && row < rows.segments[i].row_end) return i;
  }
  return -1;
}

Buffer Counter(const Stream& stream) { return Buffer(4, stream.device); }

template <typename T>
void ExpectExports(const Case& c) {
  SCOPED_TRACE(std::to_string(c.num_rows) + " x " + std::to_string(c.k));
  const int64_t stride = c.k + c.pad;
  const auto x = Input<T>::Normal(c.num_rows * stride, 1, c.misalign);
  const HostSegments rows = SegmentsOf(c);
  ForEachDevice([&](Stream& stream) {
    Shared<uint32_t> flag{6};
    Buffer num_done = Counter(stream);
    // Runs twice, because after the first run the count of finished blocks must be zero again.
    for (const uint32_t step : {7u, 8u}) {
      Output<T> out(c.num_rows * c.k, c.misalign);
      HostExport({.rows = rows,
                  .x = x.data(),
                  .x_stride = stride,
                  .k = c.k,
                  .dtype = DTypeOf<T>(),
                  .out = out.data(),
                  .flag = flag.data(),
                  .step = step,
                  .num_done = num_done.as<uint32_t>()},
                 stream);
      Synchronize(stream);
      EXPECT_EQ(flag[0], step);
      EXPECT_TRUE(out.GuardsIntact());
      for (int64_t row = 0; row < c.num_rows; ++row) {
        if (SegmentOf(rows, row) < 0) {
          ASSERT_TRUE(out.IsUntouched(row * c.k)) << row;
        } else {
          ASSERT_TRUE(BitEqual(out.data() + row * c.k, x.data() + row * stride, c.k)) << row;
        }
      }
    }
  });
}

TEST(HostExportTest, RowsAndFlag) {
  for (const Case& c : kCases) {
    ExpectExports<float>(c);
    ExpectExports<Bfloat16>(c);
    ExpectExports<Float16>(c);
  }
}

// Three slices of k, 5 and 12 columns. The second slice must be left alone.
void ExpectAdds(const Case& c) {
  SCOPED_TRACE(std::to_string(c.num_rows) + " x " + std::to_string(c.k));
  const int64_t n = c.k + 17;
  const int64_t begins[] = {0, c.k, c.k + 5};
  const int64_t sizes[] = {c.k, 5, 12};
  const int64_t stride = n + c.pad;
  const auto delta = Input<float>::Normal(c.num_rows * n, 2, c.misalign);
  const auto before = Input<float>::Normal(c.num_rows * stride, 3, c.misalign);
  const HostSegments rows = SegmentsOf(c);
  ForEachDevice([&](Stream& stream) {
    Output<float> y(before, c.misalign);
    HostAddArgs args{.rows = rows,
                     .delta = delta.data(),
                     .delta_stride = n,
                     .y = y.data(),
                     .y_stride = stride,
                     .num_slices = 3};
    std::copy(begins, begins + 3, args.slice_begin);
    std::copy(sizes, sizes + 3, args.slice_n);
    HostAdd(args, stream);
    Synchronize(stream);
    EXPECT_TRUE(y.GuardsIntact());
    for (int64_t i = 0; i < y.size(); ++i) {
      const int64_t row = i / stride;
      const int64_t column = i % stride;
      const int segment = SegmentOf(rows, row);
      const int slice = column < begins[1] ? 0 : column < begins[2] ? 1 : column < n ? 2 : 3;
      if (segment < 0 || slice == 1 || slice == 3) {
        ASSERT_EQ(y[i], before[i]) << row << ", " << column;
        continue;
      }
      Reference expected;
      expected.Add(before.At(i));
      expected.Add(rows.segments[segment].scale[slice] * delta.At(row * n + column));
      ASSERT_TRUE(IsClose(y.At(i), expected, kF32Tolerance)) << row << ", " << column;
    }
  });
}

TEST(HostAddTest, MatchesReference) {
  for (const Case& c : kCases) ExpectAdds(c);
}

// A worker answers late, and the step numbers wrap around meanwhile. What it wrote must be added.
TEST(HostWaitTest, WaitsForEveryFlag) {
  constexpr int64_t kColumns = 300;
  HostSegments rows;
  rows.segments[rows.count++] = {0, 2, {1.0f}};
  const auto x = Input<float>::Normal(2 * kColumns, 4);
  ForEachDevice([&](Stream& stream) {
    Shared<uint32_t> exported{0xfffffffdu};
    Shared<uint32_t> answered(std::vector<uint32_t>(3 * 16, 0xfffffffdu));
    Shared<float> seen(std::vector<float>(2 * kColumns));
    Shared<float> delta(std::vector<float>(2 * kColumns));
    Shared<float> y(std::vector<float>(2 * kColumns));
    Buffer num_done = Counter(stream);
    constexpr uint32_t kSteps[] = {0xfffffffeu, 0xffffffffu, 0u, 1u};
    std::thread worker([&] {
      for (const uint32_t step : kSteps) {
        while (!HasReached(__atomic_load_n(exported.data(), __ATOMIC_ACQUIRE), step)) {
          std::this_thread::yield();
        }
        for (int64_t i = 0; i < 2 * kColumns; ++i) {
          delta[static_cast<size_t>(i)] =
              seen[static_cast<size_t>(i)] * static_cast<float>(step + 3u);
        }
        for (size_t i = 0; i < 3; ++i) {
          __atomic_store_n(&answered[i * 16], step, __ATOMIC_RELEASE);
        }
      }
    });
    for (const uint32_t step : kSteps) {
      HostExport({.rows = rows,
                  .x = x.data(),
                  .x_stride = kColumns,
                  .k = kColumns,
                  .out = seen.data(),
                  .flag = exported.data(),
                  .step = step,
                  .num_done = num_done.as<uint32_t>()},
                 stream);
      HostWait({.flags = answered.data(), .flag_stride = 16, .num_flags = 3, .step = step}, stream);
      HostAddArgs add{.rows = rows,
                      .delta = delta.data(),
                      .delta_stride = kColumns,
                      .y = y.data(),
                      .y_stride = kColumns};
      add.slice_n[0] = kColumns;
      HostAdd(add, stream);
    }
    Synchronize(stream);
    worker.join();
    for (int64_t i = 0; i < 2 * kColumns; ++i) {  // the sum is 1 + 2 + 3 + 4 times x
      ASSERT_NEAR(y[static_cast<size_t>(i)], 10.0 * x.At(i), 1e-5 * std::fabs(x.At(i)) + 1e-6) << i;
    }
  });
}

TEST(HostExchangeDeathTest, RefusesBadRows) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  HostAddArgs args;
  args.rows.count = 2;
  args.rows.segments[0] = {0, 3, {}};
  args.rows.segments[1] = {2, 4, {}};
  EXPECT_DEATH(HostAdd(args, stream), "after row 3");
  args.rows.count = kHostSegmentsMax + 1;
  EXPECT_DEATH(HostAdd(args, stream), "count");
  EXPECT_DEATH(HostWait({.num_flags = kHostFlagsMax + 1}, stream), "num_flags");
}

}  // namespace host_exchange_test
}  // namespace graft
