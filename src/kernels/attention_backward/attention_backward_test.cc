#include "kernels/attention_backward/attention_backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/common/test_util.h"

namespace graft {
namespace attention_backward_test {

using testing::Input;
using testing::Output;

struct Case {
  std::vector<int32_t> row_begin;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
};

// The sum of d_out * attention(qkv), in double.
double Objective(const Case& c, const std::vector<double>& qkv, const Input<float>& d_out,
                 double scale) {
  const int32_t stride = (c.num_heads + 2 * c.num_kv_heads) * c.head_dim;
  double total = 0.0;
  for (size_t sequence = 0; sequence + 1 < c.row_begin.size(); ++sequence) {
    for (int32_t row = c.row_begin[sequence]; row < c.row_begin[sequence + 1]; ++row) {
      for (int32_t head = 0; head < c.num_heads; ++head) {
        const int32_t kv = head / (c.num_heads / c.num_kv_heads);
        const int32_t key = (c.num_heads + kv) * c.head_dim;
        const int32_t value = key + c.num_kv_heads * c.head_dim;
        double sum = 0.0, weighted = 0.0;
        for (int32_t s = c.row_begin[sequence]; s <= row; ++s) {
          double score = 0.0, worth = 0.0;
          for (int32_t i = 0; i < c.head_dim; ++i) {
            score += qkv[row * stride + head * c.head_dim + i] * qkv[s * stride + key + i];
            worth += qkv[s * stride + value + i] *
                     d_out.At((int64_t{row} * c.num_heads + head) * c.head_dim + i);
          }
          const double weight = std::exp(score * scale);
          sum += weight;
          weighted += weight * worth;
        }
        total += weighted / sum;
      }
    }
  }
  return total;
}

// Against central differences in double, over grouped heads, odd sizes and several sequences.
TEST(AttentionBackwardTest, MatchesFiniteDifferences) {
  ThreadPool threads(2);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const Case cases[] = {{{0, 1}, 1, 1, 1}, {{0, 5, 5, 8}, 4, 2, 6}, {{0, 18}, 2, 1, 20}};
  for (const Case& c : cases) {
    const int32_t rows = c.row_begin.back();
    const int32_t stride = (c.num_heads + 2 * c.num_kv_heads) * c.head_dim;
    const auto qkv = Input<float>::Normal(int64_t{rows} * stride, 1);
    const auto d_out = Input<float>::Normal(int64_t{rows} * c.num_heads * c.head_dim, 2);
    Output<float> d_qkv(int64_t{rows} * stride);
    std::vector<float> scratch(
        static_cast<size_t>(AttentionBackwardFloats(rows, c.head_dim, threads.num_threads())));
    const double scale = 1.0 / std::sqrt(c.head_dim);
    AttentionBackward({.row_begin = c.row_begin.data(),
                       .num_sequences = static_cast<int32_t>(c.row_begin.size()) - 1,
                       .num_heads = c.num_heads,
                       .num_kv_heads = c.num_kv_heads,
                       .head_dim = c.head_dim,
                       .scale = static_cast<float>(scale),
                       .qkv = qkv.data(),
                       .qkv_stride = stride,
                       .d_out = d_out.data(),
                       .d_qkv = d_qkv.data(),
                       .scratch = scratch.data()},
                      stream);
    EXPECT_TRUE(d_qkv.GuardsIntact());
    std::vector<double> moved;
    for (int64_t i = 0; i < qkv.size(); ++i) moved.push_back(qkv.At(i));
    for (size_t i = 0; i < moved.size(); i += 1 + moved.size() / 150) {
      const double before = moved[i];
      moved[i] = before + 1e-5;
      const double above = Objective(c, moved, d_out, scale);
      moved[i] = before - 1e-5;
      const double below = Objective(c, moved, d_out, scale);
      moved[i] = before;
      ASSERT_NEAR(d_qkv[static_cast<int64_t>(i)], (above - below) / 2e-5, 2e-5) << i;
    }
  }
}

}  // namespace attention_backward_test
}  // namespace graft
