#include "kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "kernels/common/test_util.h"

namespace graft {
namespace {

using testing::ForEachCpu;
using testing::Input;
using testing::IsClose;
using testing::Output;
using testing::Reference;

struct Case {
  std::vector<int64_t> parts;  // rows of each stacked weight
  int64_t k;
  int64_t m;
  bool bias = false;
  bool accumulate = false;
  int64_t x_gap = 0;  // elements between the rows of x and of y
  int64_t y_gap = 0;
  int64_t misalign = 0;
  friend std::ostream& operator<<(std::ostream& os, const Case& c) {
    os << "n";
    for (const int64_t n : c.parts) os << " " << n;
    return os << ", k " << c.k << ", m " << c.m << (c.bias ? ", bias" : "")
              << (c.accumulate ? ", accumulate" : "") << ", gaps " << c.x_gap << " " << c.y_gap
              << ", misalign " << c.misalign;
  }
};

const Case kCases[] = {
    {.parts = {1}, .k = 1, .m = 1},
    {.parts = {1}, .k = 1, .m = 3, .bias = true, .misalign = 1},
    {.parts = {1}, .k = 513, .m = 2, .accumulate = true},
    {.parts = {31}, .k = 2, .m = 5, .y_gap = 1},
    {.parts = {32}, .k = 3, .m = 14, .x_gap = 3, .misalign = 3},
    {.parts = {33}, .k = 64, .m = 15, .bias = true, .accumulate = true, .y_gap = 7},
    {.parts = {64}, .k = 512, .m = 16, .misalign = 1},
    {.parts = {5, 3, 29}, .k = 257, .m = 17, .bias = true, .x_gap = 5, .y_gap = 2},
    {.parts = {48, 48}, .k = 511, .m = 28, .accumulate = true, .misalign = 5},
    {.parts = {100}, .k = 1025, .m = 29, .x_gap = 1},
    {.parts = {17, 15}, .k = 100, .m = 257, .bias = true, .y_gap = 3},
    {.parts = {300}, .k = 600, .m = 4, .accumulate = true},
    {.parts = {70}, .k = 33, .m = 600, .accumulate = true, .x_gap = 2, .y_gap = 1, .misalign = 7},
};

// vdpbf16ps rounds twice per pair, so the bound grows with k; inputs are exact in both types.
double ToleranceFor(int64_t k) { return 1e-6 + 1e-7 * static_cast<double>(k); }

template <typename T>
struct Problem {
  Problem(const Case& c, uint64_t seed) : test(c), k(c.k), m(c.m) {
    for (const int64_t rows : c.parts) {
      weights.push_back(Input<T>::Normal(rows * k, seed + 10 + weights.size(), c.misalign));
      views.push_back({weights.back().data(), DTypeOf<T>(), {rows, k}});
      n += rows;
    }
    x_stride = k + c.x_gap;
    y_stride = n + c.y_gap;
    x = Input<T>::Normal((m - 1) * x_stride + k, seed + 1, c.misalign);
    bias = Input<float>::Normal(n, seed + 2, c.misalign);
    y_before = Input<float>::Normal(m * y_stride, seed + 3);
  }

  GemmArgs Args(const GemmWeight& weight, float* y) const {
    return {.x = x.data(),
            .x_stride = x_stride,
            .m = m,
            .weight = &weight,
            .bias = test.bias ? bias.data() : nullptr,
            .y = y,
            .y_stride = y_stride,
            .accumulate = test.accumulate};
  }

  Reference Expected(int64_t row, int64_t column) const {
    Reference sum;
    int64_t part = 0, local = column;
    while (local >= test.parts[part]) local -= test.parts[part++];
    for (int64_t i = 0; i < k; ++i) {
      sum.Add(x.At(row * x_stride + i) * weights[part].At(local * k + i));
    }
    if (test.bias) sum.Add(bias.At(column));
    if (test.accumulate) sum.Add(y_before.At(row * y_stride + column));
    return sum;
  }

  Case test;
  int64_t n = 0, k, m, x_stride, y_stride;
  std::vector<Input<T>> weights;
  std::vector<TensorView> views;
  Input<T> x{0};
  Input<float> bias{0}, y_before{0};
};

template <typename T>
void CheckCase(const Case& c) {
  const Problem<T> problem(c, 42);
  std::vector<Reference> expected;
  for (int64_t row = 0; row < problem.m; ++row) {
    for (int64_t column = 0; column < problem.n; ++column) {
      expected.push_back(problem.Expected(row, column));
    }
  }
  ForEachCpu([&](Stream& stream) {
    const GemmWeight weight = GemmWeight::Pack(problem.views, DTypeOf<T>(), stream);
    ASSERT_EQ(weight.n(), problem.n);
    ASSERT_EQ(weight.k(), problem.k);
    const int64_t size = (problem.m - 1) * problem.y_stride + problem.n;
    Output<float> y(size, c.misalign);
    if (c.accumulate) std::copy_n(problem.y_before.data(), size, y.data());
    Gemm(problem.Args(weight, y.data()), stream);
    for (int64_t row = 0; row < problem.m; ++row) {
      for (int64_t column = 0; column < problem.n; ++column) {
        ASSERT_TRUE(IsClose(y.At(row * problem.y_stride + column),
                            expected[row * problem.n + column], ToleranceFor(problem.k)))
            << "row " << row << ", column " << column;
      }
      for (int64_t gap = problem.n; gap < problem.y_stride && row + 1 < problem.m; ++gap) {
        const int64_t i = row * problem.y_stride + gap;
        if (c.accumulate) {
          ASSERT_EQ(y[i], problem.y_before[i]) << "gap after row " << row;
        } else {
          ASSERT_TRUE(y.IsUntouched(i)) << "gap after row " << row;
        }
      }
    }
    EXPECT_TRUE(y.GuardsIntact());
  });
}

TEST(GemmTest, EqualsReference) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(::testing::PrintToString(c));
    CheckCase<float>(c);
    CheckCase<Bfloat16>(c);
  }
}

// The contract that greedy decoding rests on: the same bits for a row, alone or in any batch, on
// any number of threads.
template <typename T>
void CheckRowInvariance(int64_t n, int64_t k, bool accumulate) {
  constexpr int64_t kRowsMax = 300;
  const Problem<T> problem(
      {.parts = {n}, .k = k, .m = kRowsMax, .bias = true, .accumulate = accumulate}, 7);
  std::vector<int64_t> batches;
  for (int64_t m = 1; m <= 40; ++m) batches.push_back(m);
  for (const int64_t m : {64, 65, 128, 200, 256, 257, 300}) batches.push_back(m);
  CpuIsa isa = CpuIsa::kPortable;
  std::vector<float> alone;  // each row as a batch of one, on one thread, per instruction set
  ForEachCpu([&](Stream& stream) {
    const GemmWeight weight = GemmWeight::Pack(problem.views, DTypeOf<T>(), stream);
    if (alone.empty() || isa != ActiveCpuIsa()) {
      isa = ActiveCpuIsa();
      alone.assign(problem.y_before.data(), problem.y_before.data() + kRowsMax * n);
      for (int64_t row = 0; row < kRowsMax; ++row) {
        GemmArgs args = problem.Args(weight, alone.data() + row * n);
        args.x = problem.x.data() + row * k;
        args.m = 1;
        Gemm(args, stream);
      }
    }
    for (const int64_t m : batches) {
      // Rows from the end, so that a row's place in its tile differs from batch to batch.
      const int64_t first = kRowsMax - m;
      std::vector<float> y(problem.y_before.data() + first * n,
                           problem.y_before.data() + kRowsMax * n);
      GemmArgs args = problem.Args(weight, y.data());
      args.x = problem.x.data() + first * k;
      args.m = m;
      Gemm(args, stream);
      ASSERT_TRUE(testing::BitEqual(y.data(), alone.data() + first * n, m * n)) << "m " << m;
    }
  });
}

TEST(GemmTest, RowsDoNotDependOnTheirBatch) {
  CheckRowInvariance<float>(65, 700, false);
  CheckRowInvariance<Bfloat16>(65, 701, true);
  CheckRowInvariance<Bfloat16>(32, 64, false);
}

// A file's dtype need not be the model's, and a mapped tensor need not be aligned.
TEST(GemmTest, PacksFromAnyDTypeAndAlignment) {
  constexpr int64_t kN = 37, kK = 301;
  const Input<float> source = Input<float>::Normal(kN * kK, 3);
  const Input<float> x = Input<float>::Normal(kK, 4);
  std::vector<Bfloat16> x16(kK);
  ConvertElements(DType::kF32, x.data(), DType::kBF16, x16.data(), kK);
  ForEachCpu([&](Stream& stream) {
    for (const DType from : {DType::kF32, DType::kBF16, DType::kF16}) {
      std::vector<char> file(kN * kK * DTypeBytes(from) + 1);
      ConvertElements(DType::kF32, source.data(), from, file.data() + 1, kN * kK);
      const TensorView view{file.data() + 1, from, {kN, kK}};
      for (const DType to : {DType::kF32, DType::kBF16}) {
        const GemmWeight weight = GemmWeight::Pack({&view, 1}, to, stream);
        EXPECT_EQ(weight.dtype(), to);
        Output<float> y(kN);
        const void* input = to == DType::kF32 ? static_cast<const void*>(x.data()) : x16.data();
        Gemm({.x = input, .x_stride = kK, .m = 1, .weight = &weight, .y = y.data(), .y_stride = kN},
             stream);
        for (int64_t n = 0; n < kN; ++n) {
          Reference sum;
          for (int64_t k = 0; k < kK; ++k) {
            float value;
            std::vector<char> rounded(4);
            ConvertElements(from, file.data() + 1 + (n * kK + k) * DTypeBytes(from), to,
                            rounded.data(), 1);
            ConvertElements(to, rounded.data(), DType::kF32, &value, 1);
            sum.Add(static_cast<double>(value) *
                    (to == DType::kF32 ? x.At(k) : static_cast<double>(ToFloat(x16[k]))));
          }
          ASSERT_TRUE(IsClose(y.At(n), sum, ToleranceFor(kK))) << n;
        }
      }
    }
  });
}

TEST(GemmTest, NoRowsTouchNothing) {
  ForEachCpu([](Stream& stream) {
    const Input<float> source = Input<float>::Normal(6, 1);
    const TensorView view{source.data(), DType::kF32, {2, 3}};
    const GemmWeight weight = GemmWeight::Pack({&view, 1}, DType::kF32, stream);
    Output<float> y(2);
    Gemm({.m = 0, .weight = &weight, .y = y.data(), .y_stride = 2}, stream);
    EXPECT_TRUE(y.IsUntouched(0));
    EXPECT_TRUE(y.IsUntouched(1));
  });
}

// NaN and infinity of one row stay in that row.
TEST(GemmTest, BadRowsStayAlone) {
  constexpr int64_t kN = 40, kK = 64, kM = 20;
  const Problem<Bfloat16> problem({.parts = {kN}, .k = kK, .m = kM}, 9);
  ForEachCpu([&](Stream& stream) {
    const GemmWeight weight = GemmWeight::Pack(problem.views, DType::kBF16, stream);
    std::vector<float> clean(kM * kN), dirty(kM * kN);
    Gemm(problem.Args(weight, clean.data()), stream);
    Input<Bfloat16> x = Input<Bfloat16>::Normal(kM * kK, 10);
    std::copy_n(problem.x.data(), kM * kK, x.data());
    x[5 * kK + 3] = FromFloat<Bfloat16>(NAN);
    GemmArgs args = problem.Args(weight, dirty.data());
    args.x = x.data();
    Gemm(args, stream);
    for (int64_t row = 0; row < kM; ++row) {
      for (int64_t n = 0; n < kN; ++n) {
        if (row == 5) {
          ASSERT_TRUE(std::isnan(dirty[row * kN + n]));
        } else {
          ASSERT_EQ(dirty[row * kN + n], clean[row * kN + n]);
        }
      }
    }
  });
}

}  // namespace
}  // namespace graft
