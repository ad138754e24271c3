#include "kernels/lora_gradient/lora_gradient.h"

#include <gtest/gtest.h>

#include "kernels/common/test_util.h"

namespace graft {
namespace lora_gradient_test {

using testing::Input;
using testing::Output;

// Mixed ranks, an empty segment, rows in no segment, columns that fill no vector.
TEST(LoraGradientTest, MatchesReference) {
  ThreadPool threads(2);
  Stream stream{.device = {}, .cpu_threads = &threads};
  constexpr int64_t kRows = 23, kStride = 9;
  for (const int64_t n : {1, 5, 31, 64, 65, 130}) {
    const auto h = Input<float>::Normal(kRows * kStride, 1, 1);
    const auto x = Input<float>::Normal(kRows * (n + 3), 2, 1);
    const auto initial = Input<float>::Normal(9 * n, 3);
    Output<float> first(initial, 1), second(initial, 0), third(initial, 0);
    const LoraGradientSegment segments[] = {{0, 7, first.data(), 9, 0.5f},
                                            {7, 7, second.data(), 9, 1.0f},
                                            {9, 23, third.data(), 3, -2.0f}};
    LoraGradient({segments, 3, h.data(), kStride, x.data(), n + 3, n}, stream);
    for (const LoraGradientSegment& segment : segments) {
      for (int64_t j = 0; j < 9; ++j) {
        for (int64_t i = 0; i < n; ++i) {
          double sum = 0.0;
          for (int64_t row = segment.row_begin; row < segment.row_end; ++row) {
            sum += h.At(row * kStride + j) * x.At(row * (n + 3) + i);
          }
          const double scale = j < segment.rank ? static_cast<double>(segment.scale) : 0.0;
          ASSERT_NEAR(segment.gradient[j * n + i], initial.At(j * n + i) + scale * sum, 1e-5);
        }
      }
    }
    EXPECT_TRUE(first.GuardsIntact() && second.GuardsIntact() && third.GuardsIntact());
  }
}

}  // namespace lora_gradient_test
}  // namespace graft
