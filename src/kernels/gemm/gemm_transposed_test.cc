#include <gtest/gtest.h>

#include "kernels/common/op_test_util.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/gemm_ways.h"

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

// Pauses fall between pieces of a transpose, and none before the first one.
TEST(GemmTransposedTest, OthersAreLetInBetweenPieces) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  constexpr int64_t kN = 20'000;  // so that a panel of the transpose is more than a piece
  constexpr int64_t kK = 70;      // three panels
  const std::vector<float> numbers(static_cast<size_t>(kN * kK), 1.0f);
  const TensorView view{numbers.data(), DType::kF32, {kN, kK}};
  const GemmWeight weight = GemmWeight::Pack({&view, 1}, DType::kF32, stream);
  int num_pauses = 0;
  EXPECT_EQ(weight.Transposed(stream, [&num_pauses] { ++num_pauses; }).n(), kK);
  EXPECT_EQ(num_pauses, 2);
}

// The same weight twice transposed on a GPU, and into room that was another's.
TEST(GemmTransposedTest, MatchesReferenceOnAGpu) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& shape : {std::pair{1, 1}, {33, 7}, {128, 64}, {72, 136}, {200, 520}}) {
      const int n = shape.first, k = shape.second;
      const auto numbers = Input<float>::Normal(int64_t{n} * k, 3, 0, 0.25);
      const auto x = Input<float>::Normal(2 * n, 5);
      testing::ForFirstGpu([&](Stream& stream) {
        const TensorView view{numbers.data(), DType::kF32, {n, k}};
        const GemmWeight weight = GemmWeight::Pack({&view, 1}, dtype, stream);
        GemmWeight transposed = GemmWeight::LikeTransposed(weight);
        transposed.TransposeFrom(weight, stream);
        ASSERT_EQ(transposed.n(), k);
        ASSERT_EQ(transposed.k(), n);
        Input<Bfloat16> rounded(2 * n);
        for (int64_t i = 0; i < 2 * n; ++i) rounded[i] = FromFloat<Bfloat16>(x[i]);
        testing::Output<float> y(2 * k);
        const bool is_fp32 = dtype == DType::kF32;
        Gemm({.x = is_fp32 ? static_cast<const void*>(x.data()) : rounded.data(),
              .x_stride = n,
              .m = 2,
              .weight = &transposed,
              .y = y.data(),
              .y_stride = k,
              .x_is_fp32 = is_fp32},
             stream);
        Synchronize(stream);
        for (int row = 0; row < 2; ++row) {
          for (int column = 0; column < k; ++column) {
            double sum = 0.0;
            for (int i = 0; i < n; ++i) sum += x.At(row * n + i) * numbers.At(i * k + column);
            EXPECT_NEAR(y[row * k + column], sum, is_fp32 ? 1e-4 : 0.2) << n << " x " << k;
          }
        }
      });
    }
  }
}

// A product that reads W transposed has the bits of one with a transposed weight, whatever its
// tile, with more rows than a tile's, fewer, and columns that fill no tile.
TEST(GemmTransposedTest, ReadingItTransposedHasTheSameBits) {
  if (NumCudaDevices() == 0) GTEST_SKIP() << "no GPU here";
  if constexpr (kHasCuda) {
    for (const auto& shape : {std::pair{8, 8}, {72, 136}, {200, 520}, {1024, 328}, {136, 1000}}) {
      const int n = shape.first, k = shape.second;
      const auto numbers = Input<float>::Normal(int64_t{n} * k, 3, 0, 0.25);
      for (const int m : {1, 70, 300}) {
        const auto x = Input<Bfloat16>::Normal(int64_t{m} * n, 5);
        testing::ForFirstGpu([&](Stream& stream) {
          const TensorView view{numbers.data(), DType::kF32, {n, k}};
          const GemmWeight weight = GemmWeight::Pack({&view, 1}, DType::kBF16, stream);
          const GemmWeight transposed = weight.Transposed(stream);
          testing::Output<float> expected(int64_t{m} * k);
          GemmArgs args{.x = x.data(),
                        .x_stride = n,
                        .m = m,
                        .weight = &transposed,
                        .y = expected.data(),
                        .y_stride = k};
          Gemm(args, stream);
          args.transposed = true;
          args.weight = &weight;
          const auto expect_same = [&](const std::string& tile, const auto& compute) {
            testing::Output<float> y(int64_t{m} * k);
            args.y = y.data();
            compute();
            Synchronize(stream);
            EXPECT_TRUE(testing::BitEqual(y.data(), expected.data(), y.size()))
                << n << " x " << k << ", " << m << " rows, " << tile;
            EXPECT_TRUE(y.GuardsIntact());
          };
          expect_same("chosen", [&] { Gemm(args, stream); });
          for (const testing::GemmWay& way :
               testing::AllWays({.n = k, .transposed = true}, stream.device)) {
            expect_same(way.name, [&] { way.compute(args, stream); });
          }
        });
      }
    }
  }
}

}  // namespace gemm_transposed_test
}  // namespace graft
