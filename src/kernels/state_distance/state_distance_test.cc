#include "kernels/state_distance/state_distance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/common/test_util.h"

namespace graft {
namespace state_distance_test {

using testing::ForEachDevice;
using testing::Input;
using testing::Output;
using testing::Shared;

constexpr int64_t kRows = 12;

// Four of the rows, in no order; nothing is taught of the third; one number in five is the
// teacher's very own.
struct Case {
  explicit Case(int64_t size)
      : n(size),
        states(Input<float>::Normal(kRows * n, 1)),
        taught(Input<float>::Normal(4 * n, 2)) {
    for (int64_t t = 0; t < 4; ++t) {
      for (int64_t i = 0; i < n; i += 5) taught[t * n + i] = states[RowOf(t) * n + i];
    }
  }
  int64_t RowOf(int64_t target) const { return rows[static_cast<size_t>(target)]; }
  double Share(int64_t target) const { return shares[static_cast<size_t>(target)]; }

  int64_t n;
  Shared<int32_t> rows{{7, 2, 3, 11}};
  Shared<double> shares{{0.5, 0.25, 0.0, 2.0}};
  Input<float> states, taught;
};

TEST(StateDistanceTest, MatchesReference) {
  for (const int64_t n : {1, 7, 64, 1030}) {
    SCOPED_TRACE(n);
    const Case c(n);
    ForEachDevice([&](Stream& stream) {
      Output<double> losses(4);
      for (int64_t t = 0; t < 4; ++t) losses[t] = 3.0;
      Output<int8_t> signs(4 * n);
      StateDistance({.states = c.states.data(),
                     .rows = c.rows.data(),
                     .taught = c.taught.data(),
                     .shares = c.shares.data(),
                     .num_targets = 4,
                     .n = n,
                     .losses = losses.data(),
                     .signs = signs.data()},
                    stream);
      Synchronize(stream);
      EXPECT_TRUE(losses.GuardsIntact() && signs.GuardsIntact());
      for (int64_t t = 0; t < 4; ++t) {
        double sum = 0.0;
        for (int64_t i = 0; i < n; ++i) {
          const float difference = c.states[c.RowOf(t) * n + i] - c.taught[t * n + i];
          sum += std::fabs(static_cast<double>(difference));
          if (c.Share(t) == 0.0) {
            ASSERT_TRUE(signs.IsUntouched(t * n + i));
            continue;
          }
          const int sign = difference > 0.0f ? 1 : difference < 0.0f ? -1 : 0;
          ASSERT_EQ(signs[t * n + i], sign) << "target " << t << ", number " << i;
        }
        EXPECT_NEAR(losses[t], 3.0 + sum * c.Share(t), 1e-12 * (3.0 + sum));
      }
    });
  }
}

template <typename T>
void ExpectGradients(int64_t n, bool has_rows) {
  SCOPED_TRACE(std::to_string(n) + ", rows " + std::to_string(has_rows));
  const Case c(n);
  const auto before = Input<float>::Normal(kRows * n, 3);
  Shared<int8_t> signs(std::vector<int8_t>(static_cast<size_t>(4 * n)));
  for (size_t i = 0; i < signs.size(); ++i)
    signs[i] = static_cast<int8_t>(static_cast<int>(i % 3) - 1);
  ForEachDevice([&](Stream& stream) {
    Output<float> d_states(before, 0);
    Output<T> copy(kRows * n);
    StateGradient({.signs = signs.data(),
                   .rows = has_rows ? c.rows.data() : nullptr,
                   .shares = c.shares.data(),
                   .num_targets = 4,
                   .n = n,
                   .d_states = d_states.data(),
                   .copy = copy.data(),
                   .copy_dtype = DTypeOf<T>()},
                  stream);
    Synchronize(stream);
    EXPECT_TRUE(d_states.GuardsIntact() && copy.GuardsIntact());
    std::vector<float> expected(static_cast<size_t>(kRows * n));
    std::vector<bool> changed(static_cast<size_t>(kRows));
    for (int64_t i = 0; i < kRows * n; ++i) expected[static_cast<size_t>(i)] = before[i];
    for (int64_t t = 0; t < 4; ++t) {
      if (c.Share(t) == 0.0) continue;
      const int64_t row = has_rows ? c.RowOf(t) : t;
      changed[static_cast<size_t>(row)] = true;
      for (int64_t i = 0; i < n; ++i) {
        const float step = static_cast<float>(c.Share(t)) *
                           static_cast<float>(signs[static_cast<size_t>(t * n + i)]);
        expected[static_cast<size_t>(row * n + i)] += step;
      }
    }
    for (int64_t i = 0; i < kRows * n; ++i) {
      const float wanted = expected[static_cast<size_t>(i)];
      ASSERT_EQ(d_states[i], wanted) << i;
      if (changed[static_cast<size_t>(i / n)]) {
        const T rounded = FromFloat<T>(wanted);
        ASSERT_TRUE(testing::BitEqual(&rounded, &copy[i], 1)) << i;
      } else {
        ASSERT_TRUE(copy.IsUntouched(i)) << i;
      }
    }
  });
}

TEST(StateGradientTest, MatchesReference) {
  for (const int64_t n : {1, 7, 64, 1030}) {
    for (const bool has_rows : {false, true}) {
      ExpectGradients<float>(n, has_rows);
      ExpectGradients<Bfloat16>(n, has_rows);
    }
  }
}

}  // namespace state_distance_test
}  // namespace graft
