#include "kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "kernels/common/op_test_util.h"
#include "kernels/gemm/gemm_cuda.h"
#include "kernels/gemm/gemm_ways.h"

namespace graft {
namespace gemm_test {

using testing::AllWays;
using testing::ForEachCpu;
using testing::ForEachDevice;
using testing::ForFirstGpu;
using testing::GemmWay;
using testing::Input;
using testing::IsClose;
using testing::MmaWays;
using testing::Output;
using testing::Reference;
using testing::Shared;

struct Case {
  std::vector<int64_t> parts;  // the rows of each stacked weight
  int64_t k;
  int64_t m;
  bool bias = false;
  bool accumulate = false;
  float scale = 1.0f;  // of what is added to y
  int64_t x_gap = 0;   // elements between the rows of x and of y
  int64_t y_gap = 0;
  int64_t misalign = 0;
  friend std::ostream& operator<<(std::ostream& os, const Case& c) {
    os << "n";
    for (const int64_t n : c.parts) os << " " << n;
    return os << ", k " << c.k << ", m " << c.m << (c.bias ? ", bias" : "")
              << (c.accumulate ? ", accumulate" : "") << ", scale " << c.scale << ", gaps "
              << c.x_gap << " " << c.y_gap << ", misalign " << c.misalign;
  }
};

const Case kCases[] = {
    {.parts = {1}, .k = 1, .m = 1},
    {.parts = {1}, .k = 1, .m = 3, .bias = true, .misalign = 1},
    {.parts = {1}, .k = 513, .m = 2, .accumulate = true},
    {.parts = {31}, .k = 2, .m = 5, .y_gap = 1},
    {.parts = {32}, .k = 3, .m = 14, .x_gap = 3, .misalign = 3},
    {.parts = {33}, .k = 64, .m = 15, .bias = true, .accumulate = true, .scale = 0.22f, .y_gap = 7},
    {.parts = {64}, .k = 512, .m = 16, .misalign = 1},
    {.parts = {5, 3, 29}, .k = 257, .m = 17, .bias = true, .x_gap = 5, .y_gap = 2},
    {.parts = {48, 48}, .k = 511, .m = 28, .accumulate = true, .misalign = 5},
    {.parts = {100}, .k = 1025, .m = 29, .x_gap = 1},
    {.parts = {17, 15}, .k = 100, .m = 257, .bias = true, .y_gap = 3},
    {.parts = {300}, .k = 600, .m = 4, .accumulate = true},
    {.parts = {300}, .k = 600, .m = 4, .accumulate = true, .scale = -1.5f},
    {.parts = {264}, .k = 96, .m = 40, .bias = true, .accumulate = true, .scale = 0.22f},
    {.parts = {264}, .k = 96, .m = 200, .bias = true, .accumulate = true, .scale = 0.22f},
    {.parts = {70}, .k = 33, .m = 600, .accumulate = true, .x_gap = 2, .y_gap = 1, .misalign = 7},
};

// vdpbf16ps rounds twice per pair, so the bound grows with k. The inputs are exact in both types.
double ToleranceFor(int64_t k) { return 1e-6 + 1e-7 * static_cast<double>(k); }

// X: the type of x.
template <typename T, typename X = T>
struct Problem {
  Problem(const Case& c, uint64_t seed) : test(c), k(c.k), m(c.m) {
    for (const int64_t rows : c.parts) {
      weights.push_back(Input<T>::Normal(rows * k, seed + 10 + weights.size(), c.misalign));
      views.push_back({weights.back().data(), DTypeOf<T>(), {rows, k}});
      n += rows;
    }
    x_stride = k + c.x_gap;
    y_stride = n + c.y_gap;
    x = Input<X>::Normal((m - 1) * x_stride + k, seed + 1, c.misalign);
    // Beside bf16 weights fp32 may be computed as several bf16 numbers, so only what bf16 holds is
    // exact.
    if constexpr (!std::is_same_v<T, X>) {
      for (int64_t i = 0; i < (m - 1) * x_stride + k; ++i) x[i] = ToFloat(FromFloat<T>(x[i]));
    }
    bias = Input<float>::Normal(n, seed + 2, c.misalign);
    y_before = Input<float>::Normal(m * y_stride, seed + 3);
  }

  GemmArgs Args(const GemmWeight& weight, float* y) const {
    return {.x = x.data(),
            .x_stride = x_stride,
            .m = m,
            .weight = &weight,
            .y = y,
            .y_stride = y_stride,
            .epilogue = {.bias = test.bias ? bias.data() : nullptr,
                         .accumulate = test.accumulate,
                         .scale = test.scale},
            .x_is_fp32 = std::is_same_v<X, float>};
  }

  Reference Expected(int64_t row, int64_t column) const {
    Reference sum;
    int64_t part = 0, local = column;
    while (local >= test.parts[part]) local -= test.parts[part++];
    for (int64_t i = 0; i < k; ++i) {
      sum.Add(test.scale * x.At(row * x_stride + i) * weights[part].At(local * k + i));
    }
    if (test.bias) sum.Add(test.scale * bias.At(column));
    if (test.accumulate) sum.Add(y_before.At(row * y_stride + column));
    return sum;
  }
  std::vector<Reference> Expected() const {
    std::vector<Reference> all;
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) all.push_back(Expected(row, column));
    }
    return all;
  }

  Case test;
  int64_t n = 0, k, m, x_stride, y_stride;
  std::vector<Input<T>> weights;
  std::vector<TensorView> views;
  Input<X> x{0};
  Input<float> bias{0}, y_before{0};
};

// compute(args) must give `expected` in y, and must write nothing beside its rows.
template <typename T, typename X, typename Function>
void ExpectReference(const Problem<T, X>& problem, const std::vector<Reference>& expected,
                     const GemmWeight& weight, Stream& stream, const Function& compute) {
  const Case& c = problem.test;
  Output<float> y((problem.m - 1) * problem.y_stride + problem.n, c.misalign);
  if (c.accumulate) std::copy_n(problem.y_before.data(), y.size(), y.data());
  compute(problem.Args(weight, y.data()));
  Synchronize(stream);
  for (int64_t row = 0; row < problem.m; ++row) {
    for (int64_t column = 0; column < problem.n; ++column) {
      ASSERT_TRUE(IsClose(y.At(row * problem.y_stride + column), expected[row * problem.n + column],
                          ToleranceFor(problem.k)))
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
}

template <typename T, typename X = T>
void CheckCase(const Case& c) {
  const Problem<T, X> problem(c, 42);
  const std::vector<Reference> expected = problem.Expected();
  const auto check = [&](Stream& stream) {
    const GemmWeight weight = GemmWeight::Pack(problem.views, DTypeOf<T>(), stream);
    ASSERT_EQ(weight.n(), problem.n);
    ASSERT_EQ(weight.k(), problem.k);
    ExpectReference(problem, expected, weight, stream,
                    [&](const GemmArgs& args) { Gemm(args, stream); });
  };
  if constexpr (std::is_same_v<T, Float16>) {
    ForFirstGpu(check);
  } else if constexpr (std::is_same_v<T, X>) {
    ForEachDevice(check);
  } else {
    ForEachCpu(check);
  }
}

TEST(GemmTest, EqualsReference) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(::testing::PrintToString(c));
    CheckCase<float>(c);
    CheckCase<Bfloat16>(c);
    CheckCase<Bfloat16, float>(c);
    CheckCase<Float16>(c);
  }
}

// Greedy decoding rests on this: a row has the same bits alone and in any batch, with any number of
// threads.
template <typename T, typename X = T>
void CheckRowInvariance(int64_t n, int64_t k, bool accumulate) {
  constexpr int64_t kRowsMax = 300;
  const Problem<T, X> problem(
      {.parts = {n}, .k = k, .m = kRowsMax, .bias = true, .accumulate = accumulate}, 7);
  std::vector<int64_t> batches;
  for (int64_t m = 1; m <= 40; ++m) batches.push_back(m);
  for (const int64_t m : {64, 65, 128, 200, 256, 257, 300}) batches.push_back(m);
  CpuIsa isa = CpuIsa::kPortable;
  std::vector<float> alone;  // every row as a batch of one, on one thread, per instruction set
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
      // Rows are taken from the end, so that a row's place in its tile differs between batches.
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
  CheckRowInvariance<Bfloat16, float>(65, 701, true);
  CheckRowInvariance<Bfloat16, float>(100, 1026, false);
}

// The dtype in a file may differ from the model's, and a mapped tensor need not be aligned.
TEST(GemmTest, PacksFromAnyDTypeAndAlignment) {
  constexpr int64_t kN = 37, kK = 301;
  const Input<float> source = Input<float>::Normal(kN * kK, 3);
  const Input<float> x = Input<float>::Normal(kK, 4);
  Input<Bfloat16> x16(kK);
  ConvertElements(DType::kF32, x.data(), DType::kBF16, x16.data(), kK);
  ForEachDevice([&](Stream& stream) {
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
        Synchronize(stream);
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
  ForEachDevice([](Stream& stream) {
    const Input<float> source = Input<float>::Normal(6, 1);
    const TensorView view{source.data(), DType::kF32, {2, 3}};
    const GemmWeight weight = GemmWeight::Pack({&view, 1}, DType::kF32, stream);
    Output<float> y(2);
    Gemm({.m = 0, .weight = &weight, .y = y.data(), .y_stride = 2}, stream);
    Synchronize(stream);
    EXPECT_TRUE(y.IsUntouched(0));
    EXPECT_TRUE(y.IsUntouched(1));
  });
}

// fp32 x beside bf16 weights, with values that bf16 does not hold. The result is exact without
// vdpbf16ps. With it, the half of all pairs with the smaller errors is rounded, so that the error
// stays well below half of what rounding x costs. The sizes have odd numbers of pairs and tails of
// every length.
TEST(GemmTest, Fp32InputKeepsMoreThanBf16) {
  constexpr int64_t kN = 33;
  for (const int64_t k : {1, 2, 3, 5, 31, 33, 47, 66, 513, 1030}) {
    SCOPED_TRACE(k);
    const Input<Bfloat16> source = Input<Bfloat16>::Normal(kN * k, 3);
    Input<float> x = Input<float>::Normal(k, 4);
    for (int64_t i = 0; i < k; ++i) x[i] *= 1.0f + 0.0031f * static_cast<float>(i % 7);
    const TensorView view{source.data(), DType::kBF16, {kN, k}};
    ForEachCpu([&](Stream& stream) {
      const GemmWeight weight = GemmWeight::Pack({&view, 1}, DType::kBF16, stream);
      Output<float> y(kN);
      Gemm({.x = x.data(),
            .x_stride = k,
            .m = 1,
            .weight = &weight,
            .y = y.data(),
            .y_stride = kN,
            .x_is_fp32 = true},
           stream);
      double squares = 0.0, rounded_squares = 0.0;
      for (int64_t n = 0; n < kN; ++n) {
        double exact = 0.0, rounded = 0.0, magnitude = 0.0;
        for (int64_t i = 0; i < k; ++i) {
          exact += x.At(i) * source.At(n * k + i);
          rounded += double{ToFloat(FromFloat<Bfloat16>(x[i]))} * source.At(n * k + i);
          magnitude += std::abs(x.At(i) * source.At(n * k + i));
        }
        EXPECT_LT(std::abs(y.At(n) - exact), magnitude / 512.0 + 1e-6);
        squares += (y.At(n) - exact) * (y.At(n) - exact);
        rounded_squares += (rounded - exact) * (rounded - exact);
      }
      if (k <= 2) {  // a single pair keeps its rounding errors
        EXPECT_LT(squares, 0.01 * rounded_squares + 1e-10);
      } else if (k >= 500) {
        EXPECT_LT(squares, 0.5 * rounded_squares);
      }
    });
  }
}

// NaN and infinity in one row must stay in that row.
TEST(GemmTest, BadRowsStayAlone) {
  constexpr int64_t kN = 40, kK = 64, kM = 20;
  const Problem<Bfloat16> problem({.parts = {kN}, .k = kK, .m = kM}, 9);
  ForEachDevice([&](Stream& stream) {
    const GemmWeight weight = GemmWeight::Pack(problem.views, DType::kBF16, stream);
    Input<float> clean(kM * kN), dirty(kM * kN);
    Gemm(problem.Args(weight, clean.data()), stream);
    Input<Bfloat16> x = Input<Bfloat16>::Normal(kM * kK, 10);
    std::copy_n(problem.x.data(), kM * kK, x.data());
    x[5 * kK + 3] = FromFloat<Bfloat16>(NAN);
    GemmArgs args = problem.Args(weight, dirty.data());
    args.x = x.data();
    Gemm(args, stream);
    Synchronize(stream);
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

// One problem on the GPU: the bits of each row as a batch of one, to compare other batches with.
template <typename T>
class GpuRows {
 public:
  GpuRows(int64_t n, int64_t k, int64_t num_rows, bool accumulate, Stream& stream)
      : problem_({.parts = {n}, .k = k, .m = num_rows, .bias = true, .accumulate = accumulate}, 7),
        weight_(GemmWeight::Pack(problem_.views, DTypeOf<T>(), stream)),
        alone_(num_rows * n),
        together_(num_rows * n),
        stream_(stream) {
    std::copy_n(problem_.y_before.data(), num_rows * n, alone_.data());
    for (int64_t row = 0; row < num_rows; ++row) {
      GemmArgs args = Rows(row, 1, alone_.data() + row * n);
      Gemm(args, stream);
    }
    Synchronize(stream);
  }

  // Runs compute(args, weight) on the last m rows.
  template <typename Function>
  void ExpectSame(int64_t m, const Function& compute) {
    const int64_t n = problem_.n;
    const int64_t first = problem_.m - m;
    std::copy_n(problem_.y_before.data() + first * n, m * n, together_.data());
    compute(Rows(first, m, together_.data()));
    Synchronize(stream_);
    EXPECT_TRUE(testing::BitEqual(together_.data(), alone_.data() + first * n, m * n)) << "m " << m;
  }

 private:
  GemmArgs Rows(int64_t first, int64_t m, float* y) const {
    GemmArgs args = problem_.Args(weight_, y);
    args.x = problem_.x.data() + first * problem_.k;
    args.m = m;
    return args;
  }

  const Problem<T> problem_;
  const GemmWeight weight_;
  Input<float> alone_, together_;
  Stream& stream_;
};

template <typename T>
void CheckGpuRowInvariance(int64_t n, int64_t k, int64_t num_rows, bool accumulate) {
  ForFirstGpu([&](Stream& stream) {
    GpuRows<T> rows(n, k, num_rows, accumulate, stream);
    for (const int64_t m : {2, 7, 8, 9, 16, 33, 64, 65, 100, 128, 129, 200, 256, 257, 512, 900}) {
      if (m > num_rows) continue;
      rows.ExpectSame(m, [&](const GemmArgs& args) { Gemm(args, stream); });
    }
  });
}

TEST(GemmTest, RowsDoNotDependOnTheirBatchOnTheGpu) {
  CheckGpuRowInvariance<float>(65, 700, 200, false);
  CheckGpuRowInvariance<Bfloat16>(65, 701, 200, true);  // the copy engine cannot read x
  CheckGpuRowInvariance<Bfloat16>(1000, 704, 900, true);
  CheckGpuRowInvariance<Bfloat16>(2560, 328, 300, false);  // k ends inside a box
  CheckGpuRowInvariance<Float16>(520, 1024, 900, false);
}

// Runs every kernel's every tile, whichever the shape would choose. The last of `batches` must be
// the largest.
template <typename T>
void CheckTiles(int64_t n, int64_t k, const std::vector<int64_t>& batches) {
  ForFirstGpu([&](Stream& stream) {
    GpuRows<T> rows(n, k, batches.back(), true, stream);
    for (const GemmWay& way : AllWays({.dtype = DTypeOf<T>(), .n = n}, stream.device)) {
      for (const int64_t m : batches) {
        SCOPED_TRACE(way.name);
        rows.ExpectSame(m, [&](const GemmArgs& args) { way.compute(args, stream); });
      }
    }
  });
}

TEST(GemmTest, TilesDoNotChangeBits) {
  CheckTiles<Bfloat16>(1004, 392, {1, 20, 64, 65, 330});
  CheckTiles<Bfloat16>(1052, 72, {65, 330});  // an odd number of tiles for pairs that share x
  CheckTiles<Bfloat16>(16000, 200, {330});    // for every kind more tiles than run at once
  CheckTiles<Bfloat16>(24, 8, {1, 9, 2100});  // one stage, and tiles of rows in several visits
  CheckTiles<Float16>(1004, 136, {20, 330});
}

// Every tile's ring goes round once, and some blocks of clusters have no tile. There are few
// launches, so that racecheck can follow them.
TEST(GemmTest, EachTileOnce) {
  ForFirstGpu([](Stream& stream) {
    const Problem<Bfloat16> problem(
        {.parts = {264}, .k = 1480, .m = 70, .bias = true, .accumulate = true, .scale = 0.22f}, 42);
    const std::vector<Reference> expected = problem.Expected();
    const GemmWeight weight = GemmWeight::Pack(problem.views, DType::kBF16, stream);
    for (const GemmWay& way : AllWays({.n = problem.n}, stream.device)) {
      SCOPED_TRACE(way.name);
      ExpectReference(problem, expected, weight, stream,
                      [&](const GemmArgs& args) { way.compute(args, stream); });
    }
  });
}

// The kernel of mma.sync, which Hopper's cards leave to others, with the tile that it chooses or
// with all.
template <typename T>
void CheckMma(const Case& c, bool all_tiles) {
  const Problem<T> problem(c, 42);
  ForFirstGpu([&](Stream& stream) {
    if constexpr (kHasCuda) {
      const GemmWeight weight = GemmWeight::Pack(problem.views, DTypeOf<T>(), stream);
      const std::vector<Reference> expected = problem.Expected();
      std::vector<GemmWay> ways = {{.name = "chosen", .compute = [](const auto& args, auto& on) {
                                      GemmMma(CudaArgsOf(args), on);
                                    }}};
      if (all_tiles) ways = MmaWays({.dtype = DTypeOf<T>()});
      for (const GemmWay& way : ways) {
        SCOPED_TRACE(way.name);
        ExpectReference(problem, expected, weight, stream,
                        [&](const GemmArgs& args) { way.compute(args, stream); });
      }
    }
  });
}

// Few rows go to narrow tiles, so that W's bytes are not read twice, and prompts to wide ones, on
// cards of any size. What the tile must fit into is the least that a card has.
TEST(GemmTest, TilesAreChosenByWhatTheCardHas) {
  const DeviceTraits a100 = {.compute = 80,
                             .num_multiprocessors = 108,
                             .shared_bytes_max = 163 << 10,
                             .shared_bytes_of_multiprocessor = 164 << 10,
                             .threads_of_multiprocessor = 2048};
  DeviceTraits l4 = a100;
  l4.compute = 89;
  l4.num_multiprocessors = 58;
  l4.shared_bytes_max = 99 << 10;
  l4.shared_bytes_of_multiprocessor = 100 << 10;
  l4.threads_of_multiprocessor = 1536;
  if constexpr (kHasCuda) {
    for (const DeviceTraits& card : {a100, l4}) {
      for (const auto& [n, k] : {std::pair{4096, 4096}, {28672, 4096}, {4096, 14336}}) {
        const auto rows_of = [&, n = n, k = k](int64_t m) {
          return mma::kTiles[mma::ChooseTile(m, n, k, false, card)].rows;
        };
        EXPECT_EQ(rows_of(1), 8);
        EXPECT_EQ(rows_of(16), 16);
        EXPECT_GE(rows_of(32), 32);
        EXPECT_LE(rows_of(32), 64);
        EXPECT_GE(rows_of(2048), 128);
        EXPECT_GE(mma::ChooseTile(1, n, k, true, card), mma::kFirstWide);
      }
    }
  }
}

TEST(GemmTest, MmaKernelEqualsReference) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(::testing::PrintToString(c));
    CheckMma<Bfloat16>(c, false);
    CheckMma<Float16>(c, false);
  }
}

TEST(GemmTest, MmaTilesDoNotChangeTails) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(::testing::PrintToString(c));
    CheckMma<Bfloat16>(c, true);
    CheckMma<Float16>(c, true);
  }
}

// Half a byte for a number, and a scale for some of them.
TEST(GemmTest, AFormatSaysWhatAWeightTakes) {
  constexpr WeightFormat kFourBits = WeightFormat::Integers(DType::kBF16, 4, 32);
  EXPECT_EQ(kFourBits.RowBytes(33), 17);
  EXPECT_EQ(NumScales(kFourBits, 33), 2);
  EXPECT_EQ(NumScales(DType::kBF16, 33), 0);
  constexpr Device kGpu{DeviceKind::kCuda, 0};
  EXPECT_EQ(GemmWeight::BytesFor(3, 40, DType::kBF16, kGpu), 3 * 80);
  // A panel of 32 columns: two blocks of 32 numbers, each with its scales and 4 steps of 8 numbers.
  EXPECT_EQ(GemmWeight::BytesFor(3, 40, kFourBits, {}), 2 * (32 * 4 + 4 * 128));
  EXPECT_EQ(GemmWeight::BytesFor(3, 40, DType::kBF16, {}), 20 * 128);
}

// Compares by way of y, because a packed weight cannot be seen otherwise.
TEST(GemmTest, RandomWeightsAreTheSameOnEveryDevice) {
  constexpr int64_t kK = 9;
  constexpr float kDeviation = 0.02f;
  constexpr DrawnRows kParts[] = {{3, 11}, {5, 12}};
  Input<float> x(kK * kK);  // unit vectors
  for (int64_t i = 0; i < kK; ++i) x[i * kK + i] = 1.0f;
  ForEachDevice([&](Stream& stream) {
    const GemmWeight weight = GemmWeight::Random(kParts, kK, kDeviation, DType::kF32, stream);
    ASSERT_EQ(weight.n(), 8);
    Output<float> y(kK * 8);
    Gemm({.x = x.data(), .x_stride = kK, .m = kK, .weight = &weight, .y = y.data(), .y_stride = 8},
         stream);
    Synchronize(stream);
    for (int64_t n = 0; n < 8; ++n) {
      const auto& part = kParts[n < 3 ? 0 : 1];
      for (int64_t i = 0; i < kK; ++i) {
        const int64_t element = (n < 3 ? n : n - 3) * kK + i;
        EXPECT_EQ(y[i * 8 + n], RandomWeight(part.seed, element, kDeviation));
      }
    }
  });
}

}  // namespace gemm_test
}  // namespace graft
