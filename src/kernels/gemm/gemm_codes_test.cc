// Gemm of weights that are codes, against sums in double precision of the numbers that the codes
// stand for; and what plain numbers lose as codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/common/op_test_util.h"
#include "kernels/gemm/drawn_codes.h"
#include "kernels/gemm/gemm.h"

namespace graft {
namespace gemm_codes_test {

using testing::ForEachCpu;
using testing::Input;
using testing::IsClose;
using testing::Output;
using testing::Reference;

// The digits of x are off by at most 1 / 65,000 of a block's largest magnitude, and NF4's numbers
// by as much of theirs; NF4's products of low bytes, which are left out, are 1 / 33,000 of both. So
// a product's bound has the largest x times its w, and the largest w times x.
constexpr double kDigitsTolerance = 4e-5;

double Largest(const double* numbers, int64_t n) {
  double largest = 0.0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::fabs(numbers[i]));
  return largest;
}

using Case = testing::CodesCase;
using testing::DrawnCodes;

GemmArgs Args(const GemmWeight& weight, const float* x, int64_t m, float* y) {
  return {.x = x,
          .x_stride = weight.k(),
          .m = m,
          .weight = &weight,
          .y = y,
          .y_stride = weight.n(),
          .x_is_fp32 = true};
}

TEST(GemmCodesTest, SumsAreThoseOfTheNumbers) {
  for (const Case& c : testing::CodesCases()) {
    SCOPED_TRACE(c.name);
    const DrawnCodes source(c);
    const std::vector<float> of_codes = source.Numbers();
    const std::vector<double> numbers(of_codes.begin(), of_codes.end());
    ForEachCpu([&](Stream& stream) {
      const GemmWeight weight = GemmWeight::PackCodes(source, c.format, stream);
      EXPECT_EQ(weight.bytes(), GemmWeight::BytesFor(c.n, c.k, c.format, {}));
      for (const int64_t m : {1, 2, 5, 6, 19}) {
        const Input<float> x = Input<float>::Normal(m * c.k, 3, /*misalign=*/1);
        Output<float> y(m * c.n, /*misalign=*/1);
        Gemm(Args(weight, x.data(), m, y.data()), stream);
        std::vector<double> row(static_cast<size_t>(c.k));
        for (int64_t i = 0; i < m * c.n; ++i) {
          for (int64_t j = 0; j < c.k; ++j) row[j] = x.At(i / c.n * c.k + j);
          const double* w = numbers.data() + i % c.n * c.k;
          const double largest_x = Largest(row.data(), c.k), largest_w = Largest(w, c.k);
          Reference expected;
          for (int64_t j = 0; j < c.k; ++j) {
            expected.value += row[j] * w[j];
            expected.magnitude += largest_x * std::fabs(w[j]) + largest_w * std::fabs(row[j]);
          }
          ASSERT_TRUE(IsClose(y[i], expected, kDigitsTolerance)) << "m " << m << ", element " << i;
        }
        ASSERT_TRUE(y.GuardsIntact());
      }
    });
  }
}

TEST(GemmCodesTest, ARowDoesNotKnowItsBatch) {
  const Case c = {"", WeightFormat::Integers(DType::kBF16, 4, 128), 100, 520};
  const DrawnCodes source(c);
  constexpr int64_t kRows = 300;  // more than are copied at a time
  const Input<float> x = Input<float>::Normal(kRows * c.k, 4);
  ForEachCpu([&](Stream& stream) {
    const GemmWeight weight = GemmWeight::PackCodes(source, c.format, stream);
    Output<float> all(kRows * c.n);
    Gemm(Args(weight, x.data(), kRows, all.data()), stream);
    for (const int64_t row : {0, 7, 299}) {
      Output<float> one(c.n);
      Gemm(Args(weight, x.data() + row * c.k, 1, one.data()), stream);
      EXPECT_TRUE(testing::BitEqual(one.data(), all.data() + row * c.n, c.n)) << "row " << row;
    }
  });
}

TEST(GemmCodesTest, TheEpilogueIsThatOfPlainWeights) {
  const Case c = {"", WeightFormat::Normal4(DType::kBF16), 45, 128};
  const DrawnCodes source(c);
  const Input<float> x = Input<float>::Normal(3 * c.k, 5), bias = Input<float>::Normal(c.n, 6);
  const Input<float> before = Input<float>::Normal(3 * c.n, 7);
  ForEachCpu([&](Stream& stream) {
    const GemmWeight weight = GemmWeight::PackCodes(source, c.format, stream);
    Output<float> sums(3 * c.n), y(before, 0);
    Gemm(Args(weight, x.data(), 3, sums.data()), stream);
    GemmArgs args = Args(weight, x.data(), 3, y.data());
    args.epilogue = {.bias = bias.data(), .accumulate = true, .scale = 0.5f};
    Gemm(args, stream);
    for (int64_t i = 0; i < 3 * c.n; ++i) {
      const double expected = before.At(i) + 0.5 * (sums.At(i) + bias.At(i % c.n));
      EXPECT_NEAR(y[i], expected, 1e-5 * (1.0 + std::fabs(expected))) << i;
    }
  });
}

TEST(GemmCodesTest, WhatIsNoNumberStaysNone) {
  const Case c = {"", WeightFormat::Integers(DType::kBF16, 8, 128), 40, 256};
  const DrawnCodes source(c);
  ForEachCpu([&](Stream& stream) {
    const GemmWeight weight = GemmWeight::PackCodes(source, c.format, stream);
    for (const float wrong :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Input<float> x = Input<float>::Normal(2 * c.k, 8);
      x[c.k + 200] = wrong;  // of row 1
      Output<float> y(2 * c.n);
      Gemm(Args(weight, x.data(), 2, y.data()), stream);
      for (int64_t i = 0; i < c.n; ++i) {
        EXPECT_TRUE(std::isfinite(y[i]));
        EXPECT_TRUE(std::isnan(y[c.n + i]));
      }
    }
  });
}

TEST(GemmCodesTest, RowsOfZerosAndTinyNumbersGiveZeros) {
  const Case c = {"", WeightFormat::Integers(DType::kBF16, 4, 32), 40, 64};
  const DrawnCodes source(c);
  ForEachCpu([&](Stream& stream) {
    const GemmWeight weight = GemmWeight::PackCodes(source, c.format, stream);
    Input<float> x(2 * c.k);
    for (int64_t i = c.k; i < 2 * c.k; ++i) x[i] = std::numeric_limits<float>::denorm_min();
    Output<float> y(2 * c.n);
    Gemm(Args(weight, x.data(), 2, y.data()), stream);
    for (int64_t i = 0; i < 2 * c.n; ++i) EXPECT_EQ(y[i], 0.0f);
  });
}

// Relative root mean square of what drawn weights lose. 4 bits of a normal distribution in groups
// of 128: a tenth; 8 bits of a row: below a hundredth.
double LossOf(const WeightFormat& format) {
  constexpr int64_t kN = 16, kK = 1024;
  const DrawnRows part{.n = kN, .seed = 9};
  const RandomNumbers uniform({&part, 1}, kK, 0.02f);
  const RoundedCodes codes(uniform, format);
  std::vector<uint8_t> row(kK);
  std::vector<CodeScale> scales(kK);
  std::vector<float> numbers(kK);
  double lost = 0.0, whole = 0.0;
  for (int64_t n = 0; n < kN; ++n) {
    codes.ReadRow(n, row.data(), scales.data());
    uniform.Read(n, 0, kK, DType::kF32, reinterpret_cast<char*>(numbers.data()));
    for (int64_t i = 0; i < kK; ++i) {
      const double kept =
          static_cast<double>(NumberOfCode(format, row[i], scales[i / format.scale_numbers]));
      lost += (kept - numbers[i]) * (kept - numbers[i]);
      whole += double{numbers[i]} * numbers[i];
    }
  }
  return std::sqrt(lost / whole);
}

TEST(RoundedCodesTest, LossesAreThoseOfTheFormat) {
  EXPECT_NEAR(LossOf(WeightFormat::Integers(DType::kBF16, 4, 128)), 0.07, 0.015);
  EXPECT_NEAR(LossOf(WeightFormat::Integers(DType::kBF16, 8, 1024)), 0.0045, 0.001);
  EXPECT_NEAR(LossOf(WeightFormat::Normal4(DType::kBF16)), 0.1, 0.03);
}

TEST(RoundedCodesTest, WhatTheFormatHoldsIsKeptExactly) {
  // Multiples of a scale, and NF4's own numbers.
  const std::vector<float> eighths = {-0.875f, -0.5f, 0.0f, 0.125f, 0.25f, 0.5f, 0.75f, 0.875f};
  for (const WeightFormat& format :
       {WeightFormat::Integers(DType::kBF16, 4, 32), WeightFormat::Normal4(DType::kBF16)}) {
    std::vector<float> row(32);
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = format.codes == WeightCodes::kNormal4 ? 0.25f * kNormal4Numbers[i % 16]
                                                     : eighths[i % eighths.size()];
    }
    const TensorView view{row.data(), DType::kF32, {1, 32}};
    const StackedTensors source({&view, 1});
    uint8_t codes[32];
    CodeScale scale;
    RoundedCodes(source, format).ReadRow(0, codes, &scale);
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_EQ(NumberOfCode(format, codes[i], scale), row[i]) << i;
    }
  }
}

// So a folder that graft quantize writes is the same wherever it is written.
TEST(RoundedCodesTest, AllProcessorsRoundAlike) {
  constexpr int64_t kN = 64, kK = 1000;  // the last block is a part of one
  const DrawnRows part{.n = kN, .seed = 10};
  const RandomNumbers uniform({&part, 1}, kK, 0.02f);
  for (const WeightFormat& format :
       {WeightFormat::Integers(DType::kBF16, 4, 128), WeightFormat::Integers(DType::kBF16, 8, 32),
        WeightFormat::Normal4(DType::kBF16)}) {
    const RoundedCodes source(uniform, format);
    std::vector<uint8_t> first;
    std::vector<float> first_scales;
    ForEachCpu([&](Stream&) {
      std::vector<uint8_t> codes(kN * kK);
      std::vector<CodeScale> scales(static_cast<size_t>(NumScales(format, kK)));
      std::vector<float> all_scales;
      for (int64_t n = 0; n < kN; ++n) {
        source.ReadRow(n, codes.data() + n * kK, scales.data());
        for (const CodeScale& scale : scales) all_scales.push_back(scale.scale);
      }
      if (first.empty()) {
        first = codes;
        first_scales = all_scales;
      }
      EXPECT_EQ(codes, first);
      EXPECT_EQ(all_scales, first_scales);
    });
  }
}

TEST(RoundedCodesTest, ABlockOfZerosIsZeros) {
  const std::vector<float> row(64, 0.0f);
  const TensorView view{row.data(), DType::kF32, {1, 64}};
  const StackedTensors source({&view, 1});
  for (const WeightFormat& format :
       {WeightFormat::Integers(DType::kBF16, 4, 64), WeightFormat::Integers(DType::kBF16, 8, 64),
        WeightFormat::Normal4(DType::kBF16)}) {
    uint8_t codes[64];
    CodeScale scale;
    RoundedCodes(source, format).ReadRow(0, codes, &scale);
    for (const uint8_t code : codes) EXPECT_EQ(NumberOfCode(format, code, scale), 0.0f);
  }
}

}  // namespace gemm_codes_test
}  // namespace graft
