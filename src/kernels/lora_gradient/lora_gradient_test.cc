#include "kernels/lora_gradient/lora_gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace lora_gradient_test {

using testing::Input;
using testing::Output;
using testing::Shared;

constexpr int kSlices = 3;
// The slices of h that a product takes, one per matrix. The first product has two matrices, the
// others have one each.
struct ProductCase {
  int32_t first_slice;
  int32_t num_matrices;
};
constexpr ProductCase kProducts[] = {{0, 2}, {2, 1}, {1, 1}};
constexpr int kMatrices = 4;

struct Case {
  int64_t n;
  int64_t gap;       // columns between rows of x
  int64_t misalign;  // elements
  int32_t ranks[3];
  int32_t borders[6];  // of three segments' rows
};

// Mixed ranks, an empty segment, rows in no segment, columns that fill no vector; and segments of
// several parts, ranks of several tiles.
const Case kCases[] = {
    {1, 3, 1, {9, 9, 3}, {0, 7, 7, 7, 9, 23}},
    {5, 3, 1, {9, 9, 3}, {0, 7, 7, 7, 9, 23}},
    {31, 3, 1, {9, 9, 3}, {0, 7, 7, 7, 9, 23}},
    {64, 0, 0, {9, 9, 3}, {0, 7, 7, 7, 9, 23}},
    {65, 3, 1, {9, 9, 3}, {0, 7, 7, 7, 9, 23}},
    {136, 8, 0, {16, 4, 16}, {0, 33, 33, 33, 40, 1100}},
    {264, 0, 0, {8, 16, 16}, {0, 1024, 1024, 2049, 2050, 2051}},
    {72, 0, 0, {20, 0, 32}, {3, 515, 515, 1700, 1700, 1701}},
    {40, 0, 0, {100, 7, 64}, {0, 1200, 1200, 1300, 1310, 1320}},
    {40, 3, 1, {17, 7, 3}, {0, 1200, 1200, 1201, 1300, 4000}},
};

// What the op reads and writes for a case, and what it should write.
template <typename T>
struct Fixture {
  Fixture(const Case& of, int32_t parts)
      : c(of),
        num_parts(parts),
        rows(of.borders[5] + 1),
        stride(of.n + of.gap),
        rank_max(*std::max_element(of.ranks, of.ranks + 3)),
        h_stride(rank_max + 3),
        h(Input<float>::Normal(num_parts * kSlices * rows * h_stride, 1, 1)),
        h_sums(static_cast<size_t>(kSlices * rows * h_stride)) {
    for (size_t i = 0; i < h_sums.size(); ++i) {
      for (int32_t part = 0; part < num_parts; ++part) {
        h_sums[i] += h.At(part * std::ssize(h_sums) + static_cast<int64_t>(i));
      }
    }
    for (uint64_t i = 0; i < std::size(kProducts); ++i) {
      x.push_back(Input<T>::Normal(rows * stride, 2 + i, c.misalign));
    }
    for (size_t s = 0; s < 3; ++s) {
      initial.push_back(Input<float>::Normal(c.ranks[s] * kMatrices * (c.n + 2), 7));
      int32_t matrix = 0;
      for (size_t p = 0; p < std::size(kProducts); ++p) {
        for (int32_t m = 0; m < kProducts[p].num_matrices; ++m) AddSums(s, p, m, matrix++);
      }
    }
    Reset();
  }

  // Gradients as they are at first.
  void Reset() {
    gradients.clear();
    list.clear();
    for (size_t s = 0; s < 3; ++s) {
      gradients.emplace_back(initial[s], 1);
      list.push_back({c.borders[2 * s], c.borders[2 * s + 1], gradients.back().data(), c.ranks[s],
                      static_cast<float>(s) - 0.5f});
    }
  }

  // Matrix m begins at element rank * Offset(m) of a gradient. The 2 * rank numbers before each
  // matrix must stay as they are.
  int64_t Offset(int64_t matrix) const { return matrix * (c.n + 2) + 2; }

  // A matrix's sums, and those of their terms' magnitudes.
  void AddSums(size_t segment, size_t product, int32_t m, int32_t matrix) {
    auto& out = expected[segment][static_cast<size_t>(matrix)];
    out.resize(static_cast<size_t>(c.ranks[segment] * c.n));
    const int64_t slice = kProducts[product].first_slice + m;
    for (int64_t row = c.borders[2 * segment]; row < c.borders[2 * segment + 1]; ++row) {
      for (size_t at = 0; at < out.size(); ++at) {
        const auto j = static_cast<int64_t>(at) / c.n, i = static_cast<int64_t>(at) % c.n;
        const double term = h_sums[static_cast<size_t>((slice * rows + row) * h_stride + j)] *
                            x[product].At(row * stride + i);
        out[at].sum += term;
        out[at].magnitude += std::fabs(term);
      }
    }
  }

  struct Expected {
    double sum = 0.0, magnitude = 0.0;
  };

  const Case& c;
  const int32_t num_parts;
  const int64_t rows, stride;
  const int32_t rank_max;
  const int64_t h_stride;
  const Input<float> h;
  std::vector<double> h_sums;
  std::vector<Input<T>> x;
  std::vector<Input<float>> initial;
  std::vector<Output<float>> gradients;
  std::vector<LoraGradientSegment> list;
  std::vector<Expected> expected[3][kMatrices];
};

template <typename T>
LoraGradientArgs ArgsOf(const Fixture<T>& f, const Shared<LoraGradientSegment>& segments,
                        const void* h, int64_t h_stride, int64_t h_matrix) {
  LoraGradientArgs args{.segments = segments.data(),
                        .num_segments = 3,
                        .num_products = static_cast<int32_t>(std::size(kProducts)),
                        .dtype = DTypeOf<T>(),
                        .rank_max = f.rank_max,
                        .num_rows = static_cast<int32_t>(f.rows)};
  int32_t matrix = 0;
  for (size_t i = 0; i < std::size(kProducts); ++i) {
    LoraGradientProduct& product = args.products[i];
    product = {
        .h = static_cast<const char*>(h) +
             kProducts[i].first_slice * h_matrix * static_cast<int64_t>(sizeof(T)),
        .h_stride = h_stride,
        .h_matrix = h_matrix,
        .x = f.x[i].data(),
        .x_stride = f.stride,
        .n = f.c.n,
        .num_matrices = kProducts[i].num_matrices,
    };
    for (int32_t m = 0; m < product.num_matrices; ++m) product.rank_offset[m] = f.Offset(matrix++);
  }
  return args;
}

template <typename T>
void ExpectIsReference(const Fixture<T>& f) {
  for (size_t s = 0; s < 3; ++s) {
    const LoraGradientSegment& segment = f.list[s];
    const auto scale = static_cast<double>(segment.scale);
    EXPECT_TRUE(f.gradients[s].GuardsIntact());
    for (int32_t matrix = 0; matrix < kMatrices; ++matrix) {
      const auto& expected = f.expected[s][matrix];
      const int64_t begin = segment.rank * f.Offset(matrix);
      for (int64_t i = 0; i < std::ssize(expected); ++i) {
        const auto& [sum, magnitude] = expected[static_cast<size_t>(i)];
        ASSERT_NEAR(f.gradients[s][begin + i], f.initial[s].At(begin + i) + scale * sum,
                    testing::ToleranceOf(DTypeOf<T>()) * std::fabs(scale) * magnitude + 1e-5)
            << "n " << f.c.n << ", parts of h " << f.num_parts << ", segment " << s << ", matrix "
            << matrix << ", rank " << i / f.c.n << ", column " << i % f.c.n;
      }
      for (int64_t i = begin - 2 * segment.rank; i < begin; ++i) {
        ASSERT_EQ(f.gradients[s][i], f.initial[s][i]) << "before matrix " << matrix;
      }
    }
  }
}

// On the CPU h is one sum, and slices lie one behind the other.
void ExpectMatchesOnCpu(Fixture<float>& f, Stream& stream) {
  f.Reset();
  const Shared<LoraGradientSegment> segments(f.list);
  LoraGradient(ArgsOf(f, segments, f.h.data(), f.h_stride, f.rows * f.h_stride), stream);
  ExpectIsReference(f);
}

// h comes in parts that add up to it. The ops run twice with the same counters, where there are
// any, which must be zeros after each run.
template <typename T>
void ExpectMatchesInParts(Fixture<T>& f, Stream& stream) {
  const auto num_rows = static_cast<int32_t>(f.rows);
  const int64_t columns = kMatrices * f.c.n;
  const int64_t ranks = LoraGradientRankStride(f.rank_max);
  Buffer h(f.rows * kSlices * ranks * static_cast<int64_t>(sizeof(T)), stream.device);
  Buffer scratch(LoraGradientScratchFloats(stream.device, num_rows, 3, f.rank_max, columns) *
                     int64_t{sizeof(float)},
                 stream.device);
  Buffer counters(
      LoraGradientCounters(stream.device, 3, f.rank_max, columns) * int64_t{sizeof(uint32_t)},
      stream.device);
  for (int turn = 0; turn < 2; ++turn) {
    f.Reset();
    LoraGradientRound({.h = f.h.data(),
                       .h_stride = f.h_stride,
                       .h_slice = f.rows * f.h_stride,
                       .num_slices = kSlices,
                       .num_parts = f.num_parts,
                       .part = kSlices * f.rows * f.h_stride,
                       .rank_max = f.rank_max,
                       .num_rows = num_rows,
                       .dtype = DTypeOf<T>(),
                       .out = h.data()},
                      stream);
    const Shared<LoraGradientSegment> segments(f.list);
    LoraGradientArgs args = ArgsOf(f, segments, h.data(), kSlices * ranks, ranks);
    args.scratch = scratch.as<float>();
    args.counters = counters.as<uint32_t>();
    LoraGradient(args, stream);
    std::vector<uint32_t> left(static_cast<size_t>(counters.bytes()) / sizeof(uint32_t), 1);
    CopyFromDevice(left.data(), counters.data(), counters.bytes(), stream);
    Synchronize(stream);
    ExpectIsReference(f);
    EXPECT_EQ(std::ranges::count(left, 0u), std::ssize(left));
  }
}

TEST(LoraGradientTest, MatchesReference) {
  for (const Case& c : kCases) {
    Fixture<float> plain(c, 1);
    testing::ForEachDevice([&](Stream& stream) {
      if (stream.device.is_cpu()) ExpectMatchesOnCpu(plain, stream);
      ExpectMatchesInParts(plain, stream);
      Fixture<float> parts(c, 3);
      ExpectMatchesInParts(parts, stream);
    });
    testing::ForFirstGpu([&](Stream& stream) {
      Fixture<Bfloat16> rounded(c, 1), rounded_parts(c, 8);
      ExpectMatchesInParts(rounded, stream);
      ExpectMatchesInParts(rounded_parts, stream);
    });
  }
}

}  // namespace lora_gradient_test
}  // namespace graft
