#include "kernels/virtual_gradient/virtual_gradient.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace virtual_gradient_test {

using testing::BitEqual;
using testing::ForEachDevice;
using testing::Input;
using testing::Output;
using testing::Shared;

constexpr int64_t kRows = 40;

// Rows of gradients are `stride` apart and begin at `offset`: those of one layer among several.
struct Case {
  int64_t n;
  int64_t stride;
  int64_t offset;
};

// Three items of several sizes, the second one with no sequence, the third one with one row in two
// sequences. Sums in floats, one after the other: the op's are the same bits. A scale that is a
// power of two rounds nothing.
void ExpectMatchesReference(const Case& c, float scale) {
  SCOPED_TRACE(std::to_string(c.n) + " of " + std::to_string(c.stride));
  const std::vector<int32_t> tokens = {7, 3, 2};
  const std::vector<int32_t> borders = {0, 3, 3, 5};
  const Shared<int32_t> places{{30, 3, 19, 5, 5}};
  const auto x = Input<float>::Normal(kRows * c.n, 1);
  ForEachDevice([&](Stream& stream) {
    std::vector<Output<float>> gradients;
    std::vector<VirtualGradientItem> list;
    for (size_t i = 0; i < tokens.size(); ++i) {
      gradients.emplace_back(tokens[i] * c.stride);
      for (int64_t token = 0; token < tokens[i]; ++token) {
        for (int64_t j = 0; j < c.n; ++j) {
          gradients[i].data()[token * c.stride + c.offset + j] = static_cast<float>(j) * 0.5f;
        }
      }
      list.push_back({gradients[i].data(), tokens[i], borders[i], borders[i + 1]});
    }
    const Shared<VirtualGradientItem> items(list);
    VirtualGradient({.items = items.data(),
                     .num_items = static_cast<int32_t>(items.size()),
                     .num_tokens_max = 7,
                     .places = places.data(),
                     .x = x.data(),
                     .n = c.n,
                     .gradient_stride = c.stride,
                     .gradient_offset = c.offset,
                     .scale = scale},
                    stream);
    Synchronize(stream);
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_TRUE(gradients[i].GuardsIntact());
      for (int64_t at = 0; at < gradients[i].size(); ++at) {
        const int64_t token = at / c.stride, j = at % c.stride - c.offset;
        if (j < 0 || j >= c.n) {
          ASSERT_TRUE(gradients[i].IsUntouched(at)) << "item " << i << ", element " << at;
          continue;
        }
        float expected = static_cast<float>(j) * 0.5f;
        for (int32_t p = borders[i]; p < borders[i + 1]; ++p) {
          expected += scale * x[(places[static_cast<size_t>(p)] + token) * c.n + j];
        }
        ASSERT_TRUE(BitEqual(&expected, &gradients[i][at], 1))
            << "item " << i << ", token " << token << ", column " << j;
      }
    }
  });
}

TEST(VirtualGradientTest, IsTheSumInOrder) {
  const Case cases[] = {{1, 1, 0},   {7, 7, 0},     {33, 40, 5},
                        {64, 64, 0}, {64, 192, 64}, {1028, 1028, 0}};
  for (const Case& c : cases) {
    for (const float scale : {1.0f, 4.0f}) ExpectMatchesReference(c, scale);
  }
}

TEST(VirtualGradientTest, NoItemsTouchNothing) {
  ForEachDevice([&](Stream& stream) { VirtualGradient({}, stream); });
}

TEST(VirtualGradientDeathTest, RefusesMoreTokensThanItsBound) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  std::vector<float> gradient(8), x(8);
  const int32_t place = 0;
  const VirtualGradientItem item = {gradient.data(), 2, 0, 1};
  EXPECT_DEATH(VirtualGradient({.items = &item,
                                .num_items = 1,
                                .num_tokens_max = 1,
                                .places = &place,
                                .x = x.data(),
                                .n = 4,
                                .gradient_stride = 4},
                               stream),
               "item 0");
}

}  // namespace virtual_gradient_test
}  // namespace graft
