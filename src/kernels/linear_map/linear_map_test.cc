#include "kernels/linear_map/linear_map.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace linear_map_test {

using testing::BitEqual;
using testing::ForEachDevice;
using testing::Input;
using testing::Output;

struct Case {
  int64_t num_rows, k, n;
};
constexpr Case kCases[] = {{1, 1, 1}, {3, 7, 33}, {8, 16, 128}, {19, 65, 129}, {40, 130, 257}};

// A sum of `count` products of normal numbers, by fp32.
double ErrorOf(int64_t count) { return 4e-7 * std::sqrt(static_cast<double>(count)) * 4.0; }

TEST(LinearMapTest, IsTheProductAndTheBias) {
  for (const Case& c : kCases) {
    const auto x = Input<float>::Normal(c.num_rows * c.k, 1);
    const auto map = Input<float>::Normal((c.k + 1) * c.n, 2, /*misalign=*/1);
    ForEachDevice([&](Stream& stream) {
      Output<float> y(c.num_rows * c.n), one(c.n);
      LinearMap({x.data(), map.data(), y.data(), c.num_rows, c.k, c.n}, stream);
      const float* const last = x.data() + (c.num_rows - 1) * c.k;
      LinearMap({last, map.data(), one.data(), 1, c.k, c.n}, stream);
      Synchronize(stream);
      EXPECT_TRUE(y.GuardsIntact());
      EXPECT_TRUE(BitEqual(one.data(), y.data() + (c.num_rows - 1) * c.n, c.n));
      for (int64_t i = 0; i < c.num_rows * c.n; ++i) {
        double expected = map.At(c.k * c.n + i % c.n);
        for (int64_t j = 0; j < c.k; ++j) {
          expected += x.At(i / c.n * c.k + j) * map.At(j * c.n + i % c.n);
        }
        ASSERT_NEAR(y.At(i), expected, ErrorOf(c.k + 1)) << "element " << i;
      }
    });
  }
}

// Added to what is there; rows in two calls are the same bits.
TEST(LinearMapTest, GradientsAreSumsOverRows) {
  for (const Case& c : kCases) {
    const auto x = Input<float>::Normal(c.num_rows * c.k, 1);
    const auto d_y = Input<float>::Normal(c.num_rows * c.n, 2);
    const auto before = Input<float>::Normal((c.k + 1) * c.n, 3);
    ForEachDevice([&](Stream& stream) {
      Output<float> d_map(before, 0), in_two(before, 0);
      LinearMapGradient({x.data(), d_y.data(), d_map.data(), c.num_rows, c.k, c.n}, stream);
      const int64_t half = c.num_rows / 2;
      LinearMapGradient({x.data(), d_y.data(), in_two.data(), half, c.k, c.n}, stream);
      LinearMapGradient({x.data() + half * c.k, d_y.data() + half * c.n, in_two.data(),
                         c.num_rows - half, c.k, c.n},
                        stream);
      Synchronize(stream);
      EXPECT_TRUE(d_map.GuardsIntact());
      EXPECT_TRUE(BitEqual(in_two.data(), d_map.data(), d_map.size()));
      for (int64_t i = 0; i < d_map.size(); ++i) {
        const int64_t j = i / c.n;
        double expected = before.At(i);
        for (int64_t row = 0; row < c.num_rows; ++row) {
          expected += (j < c.k ? x.At(row * c.k + j) : 1.0) * d_y.At(row * c.n + i % c.n);
        }
        ASSERT_NEAR(d_map.At(i), expected, ErrorOf(c.num_rows + 1)) << "element " << i;
      }
    });
  }
}

TEST(LinearMapTest, NoRowsTouchNothing) {
  ForEachDevice([&](Stream& stream) {
    LinearMap({}, stream);
    LinearMapGradient({}, stream);
  });
}

}  // namespace linear_map_test
}  // namespace graft
