#include "kernels/lora_gradient/lora_gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/common/test_util.h"

namespace graft {
namespace lora_gradient_test {

using testing::Input;
using testing::Output;
using testing::Shared;

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
    {200, 0, 0, {20, 0, 32}, {3, 515, 515, 1100, 1100, 1101}},
    {128, 0, 0, {100, 7, 64}, {0, 600, 600, 1200, 1300, 1400}},
};

// h comes in `num_parts` parts, whose sum is what counts.
template <typename T>
void ExpectMatchesReference(const Case& c, int32_t num_parts, Stream& stream) {
  const int64_t rows = c.borders[5] + 1, stride = c.n + c.gap;
  const int32_t rank_max = *std::max_element(c.ranks, c.ranks + 3);
  const int64_t h_stride = rank_max + 3;
  const int64_t offset = 2 * c.n;  // of the matrix in a row of it
  const auto h = Input<float>::Normal(num_parts * rows * h_stride, 1, 1);
  const auto x = Input<T>::Normal(rows * stride, 2, c.misalign);
  std::vector<Input<float>> initial;
  std::vector<Output<float>> gradients;
  std::vector<LoraGradientSegment> list;
  for (int s = 0; s < 3; ++s) {
    initial.push_back(Input<float>::Normal(c.ranks[s] * (c.n + offset), 3));
    gradients.emplace_back(initial.back(), 1);
    list.push_back({c.borders[2 * s], c.borders[2 * s + 1], gradients.back().data(), c.ranks[s],
                    static_cast<float>(s) - 0.5f});
  }
  const Shared<LoraGradientSegment> segments(list);
  const auto num_rows = static_cast<int32_t>(rows);
  Buffer scratch(
      LoraGradientScratchFloats(stream.device, num_rows, 3, rank_max, c.n) * int64_t{sizeof(float)},
      stream.device);
  LoraGradient({.segments = segments.data(),
                .num_segments = 3,
                .h = h.data(),
                .h_stride = h_stride,
                .num_h_parts = num_parts,
                .h_part = rows * h_stride,
                .x = x.data(),
                .x_dtype = DTypeOf<T>(),
                .x_stride = stride,
                .n = c.n,
                .rank_offset = offset,
                .rank_max = rank_max,
                .num_rows = num_rows,
                .scratch = scratch.as<float>()},
               stream);
  Synchronize(stream);
  for (size_t s = 0; s < 3; ++s) {
    const LoraGradientSegment& segment = segments[s];
    EXPECT_TRUE(gradients[s].GuardsIntact());
    for (int64_t j = 0; j < segment.rank; ++j) {
      for (int64_t i = 0; i < c.n; ++i) {
        double sum = 0.0, magnitude = 0.0;
        for (int64_t row = segment.row_begin; row < segment.row_end; ++row) {
          double factor = 0.0;
          for (int32_t part = 0; part < num_parts; ++part) {
            factor += h.At((part * rows + row) * h_stride + j);
          }
          const double term = factor * x.At(row * stride + i);
          sum += term;
          magnitude += std::fabs(term);
        }
        const int64_t at = segment.rank * offset + j * c.n + i;
        const auto scale = static_cast<double>(segment.scale);
        ASSERT_NEAR(gradients[s][at], initial[s].At(at) + scale * sum,
                    testing::ToleranceOf(DTypeOf<T>()) * std::fabs(scale) * magnitude + 1e-5)
            << "n " << c.n << ", segment " << s << ", rank " << j << ", column " << i;
      }
    }
    for (int64_t i = 0; i < segment.rank * offset; ++i) {
      ASSERT_EQ(gradients[s][i], initial[s][i]);
    }
  }
}

TEST(LoraGradientTest, MatchesReference) {
  for (const Case& c : kCases) {
    testing::ForEachDevice([&](Stream& stream) { ExpectMatchesReference<float>(c, 1, stream); });
    testing::ForFirstGpu([&](Stream& stream) {
      ExpectMatchesReference<float>(c, 3, stream);
      ExpectMatchesReference<Bfloat16>(c, 1, stream);
      ExpectMatchesReference<Bfloat16>(c, 8, stream);
    });
  }
}

}  // namespace lora_gradient_test
}  // namespace graft
