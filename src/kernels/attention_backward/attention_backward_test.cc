#include "kernels/attention_backward/attention_backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
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
  std::vector<int32_t> prefix_tokens;  // of each sequence

  int32_t stride() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
  int32_t prefix_stride() const { return 2 * num_kv_heads * head_dim; }
  int32_t PrefixBegin(size_t sequence) const {
    return std::accumulate(prefix_tokens.begin(),
                           prefix_tokens.begin() + static_cast<std::ptrdiff_t>(sequence), 0);
  }
};

// The sum of d_out * attention(numbers), in double; numbers: qkv, and then the prefixes.
double Objective(const Case& c, const std::vector<double>& numbers, const Input<float>& d_out,
                 double scale) {
  const int32_t stride = c.stride();
  const double* const qkv = numbers.data();
  const double* const prefixes = qkv + int64_t{c.row_begin.back()} * stride;
  double total = 0.0;
  for (size_t sequence = 0; sequence + 1 < c.row_begin.size(); ++sequence) {
    for (int32_t row = c.row_begin[sequence]; row < c.row_begin[sequence + 1]; ++row) {
      for (int32_t head = 0; head < c.num_heads; ++head) {
        const int32_t kv = head / (c.num_heads / c.num_kv_heads);
        const int32_t key = (c.num_heads + kv) * c.head_dim;
        const int32_t value = key + c.num_kv_heads * c.head_dim;
        double sum = 0.0, weighted = 0.0;
        const auto add = [&](const double* keys, const double* values) {
          double score = 0.0, worth = 0.0;
          for (int32_t i = 0; i < c.head_dim; ++i) {
            score += qkv[row * stride + head * c.head_dim + i] * keys[i];
            worth += values[i] * d_out.At((int64_t{row} * c.num_heads + head) * c.head_dim + i);
          }
          const double weight = std::exp(score * scale);
          sum += weight;
          weighted += weight * worth;
        };
        for (int32_t s = 0; s < c.prefix_tokens[sequence]; ++s) {
          const double* keys =
              prefixes + int64_t{c.PrefixBegin(sequence) + s} * c.prefix_stride() + kv * c.head_dim;
          add(keys, keys + c.num_kv_heads * c.head_dim);
        }
        for (int32_t s = c.row_begin[sequence]; s <= row; ++s) {
          add(qkv + s * stride + key, qkv + s * stride + value);
        }
        total += weighted / sum;
      }
    }
  }
  return total;
}

// Against central differences in double, over grouped heads, odd sizes and several sequences, some
// of them behind prefixes.
TEST(AttentionBackwardTest, MatchesFiniteDifferences) {
  ThreadPool threads(2);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const Case cases[] = {{{0, 1}, 1, 1, 1, {0}},
                        {{0, 5, 5, 8}, 4, 2, 6, {0, 0, 0}},
                        {{0, 18}, 2, 1, 20, {0}},
                        {{0, 5, 5, 8, 10}, 4, 2, 6, {3, 2, 0, 17}},
                        {{0, 1}, 2, 1, 20, {1}}};
  for (const Case& c : cases) {
    const int32_t rows = c.row_begin.back();
    const int32_t before = c.PrefixBegin(c.prefix_tokens.size());
    const auto qkv = Input<float>::Normal(int64_t{rows} * c.stride(), 1);
    const auto d_out = Input<float>::Normal(int64_t{rows} * c.num_heads * c.head_dim, 2);
    // With room between positions, as the layers of a prefix have it.
    const int64_t apart = c.prefix_stride() + 5;
    const auto given = Input<float>::Normal(int64_t{before} * apart + 1, 3);
    Output<float> d_qkv(int64_t{rows} * c.stride());
    Output<float> d_given(int64_t{before} * c.prefix_stride());
    std::vector<AttentionPrefix> prefixes;
    for (size_t i = 0; i < c.prefix_tokens.size(); ++i) {
      const int64_t first = c.PrefixBegin(i);
      prefixes.push_back({c.prefix_tokens[i], given.data() + first * apart, apart,
                          d_given.data() + first * c.prefix_stride()});
    }
    std::vector<float> scratch(static_cast<size_t>(
        AttentionBackwardFloats(rows + before, c.head_dim, threads.num_threads())));
    const double scale = 1.0 / std::sqrt(c.head_dim);
    AttentionBackward({.row_begin = c.row_begin.data(),
                       .num_sequences = static_cast<int32_t>(c.row_begin.size()) - 1,
                       .num_heads = c.num_heads,
                       .num_kv_heads = c.num_kv_heads,
                       .head_dim = c.head_dim,
                       .scale = static_cast<float>(scale),
                       .qkv = qkv.data(),
                       .qkv_stride = c.stride(),
                       .d_out = d_out.data(),
                       .d_qkv = d_qkv.data(),
                       .prefixes = before == 0 ? nullptr : prefixes.data(),
                       .scratch = scratch.data()},
                      stream);
    EXPECT_TRUE(d_qkv.GuardsIntact() && d_given.GuardsIntact());
    std::vector<double> moved;
    for (int64_t i = 0; i < qkv.size(); ++i) moved.push_back(qkv.At(i));
    for (int64_t s = 0; s < before; ++s) {
      for (int64_t i = 0; i < c.prefix_stride(); ++i) moved.push_back(given.At(s * apart + i));
    }
    for (size_t i = 0; i < moved.size(); i += 1 + moved.size() / 150) {
      const double at = moved[i];
      moved[i] = at + 1e-5;
      const double above = Objective(c, moved, d_out, scale);
      moved[i] = at - 1e-5;
      const double below = Objective(c, moved, d_out, scale);
      moved[i] = at;
      const auto index = static_cast<int64_t>(i);
      const float got = index < qkv.size() ? d_qkv[index] : d_given[index - qkv.size()];
      ASSERT_NEAR(got, (above - below) / 2e-5, 2e-5) << i;
    }
  }
}

}  // namespace attention_backward_test
}  // namespace graft
