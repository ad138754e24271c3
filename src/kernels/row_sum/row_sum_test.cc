#include "kernels/row_sum/row_sum.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace row_sum_test {

using testing::ForEachDevice;
using testing::Input;
using testing::Output;

// Bit for bit the sums of a loop, whether the rows come in one call or in two.
TEST(RowSumTest, AddsRowsInTheirOrder) {
  for (const int64_t n : {1, 3, 64, 513, 4096}) {
    for (const int64_t num_rows : {0, 1, 2, 15, 16, 17, 200}) {
      const auto x = Input<float>::Normal(num_rows * n, 1, 0, 1000.0);
      Input<double> before(n);
      for (int64_t i = 0; i < n; ++i) before[i] = 0.1 * static_cast<double>(i % 7);
      std::vector<double> expected(before.data(), before.data() + n);
      for (int64_t row = 0; row < num_rows; ++row) {
        for (int64_t i = 0; i < n; ++i) expected[i] += double{x.data()[row * n + i]};
      }
      for (const int64_t first : {int64_t{0}, num_rows / 3}) {
        ForEachDevice([&](Stream& stream) {
          Output<double> sums(before, 0);
          RowSum({.x = x.data(), .num_rows = first, .n = n, .sums = sums.data()}, stream);
          RowSum({.x = x.data() + first * n,
                  .num_rows = num_rows - first,
                  .n = n,
                  .sums = sums.data()},
                 stream);
          Synchronize(stream);
          EXPECT_TRUE(sums.GuardsIntact());
          for (int64_t i = 0; i < n; ++i) ASSERT_EQ(sums.data()[i], expected[i]) << i;
        });
      }
    }
  }
}

}  // namespace row_sum_test
}  // namespace graft
