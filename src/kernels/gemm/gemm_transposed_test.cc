#include <gtest/gtest.h>

#include "kernels/common/test_util.h"
#include "kernels/gemm/gemm.h"

namespace graft {
namespace gemm_transposed_test {

using testing::Input;

// Twice transposed is the weight itself, and y of the transposed weight is x W.
TEST(GemmTransposedTest, MatchesReference) {
  ThreadPool threads(2);
  Stream stream{.device = {}, .cpu_threads = &threads};
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [n, k] : {std::pair{1, 1}, {33, 7}, {32, 64}, {77, 95}}) {
      const auto numbers = Input<float>::Normal(int64_t{n} * k, 3);
      const TensorView view{numbers.data(), DType::kF32, {n, k}};
      const GemmWeight weight = GemmWeight::Pack({&view, 1}, dtype, stream);
      const GemmWeight transposed = weight.Transposed(stream);
      ASSERT_EQ(transposed.n(), k);
      ASSERT_EQ(transposed.k(), n);
      const auto x = Input<float>::Normal(2 * n, 5);
      std::vector<float> y(static_cast<size_t>(2 * k));
      Gemm({.x = x.data(),
            .x_stride = n,
            .m = 2,
            .weight = &transposed,
            .y = y.data(),
            .y_stride = k,
            .x_is_fp32 = true},
           stream);
      for (int row = 0; row < 2; ++row) {
        for (int column = 0; column < k; ++column) {
          double sum = 0.0;
          for (int i = 0; i < n; ++i) sum += x.At(row * n + i) * numbers.At(i * k + column);
          EXPECT_NEAR(y[static_cast<size_t>(row * k + column)], sum,
                      dtype == DType::kF32 ? 1e-4 : 0.2);
        }
      }
    }
  }
}

}  // namespace gemm_transposed_test
}  // namespace graft
