#include "kernels/attention_backward/attention_backward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace attention_backward_test {

using testing::Input;
using testing::Output;
using testing::Shared;

struct Case {
  std::vector<int32_t> row_begin;
  int32_t num_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  std::vector<int32_t> prefix_tokens = {};  // of each sequence; empty: none has one

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

// All of d_qkv, of the prefixes' gradients and of attention's output in double, d_qkv turned back
// by `cos` and `back_sin`. Positions of `given` are `apart` elements apart.
struct DoubleReference {
  template <typename T, typename D>
  DoubleReference(const Case& c, const Input<T>& qkv, const Input<T>& given, int64_t apart,
                  const Input<D>& d_out, double scale)
      : case_(c), stride(c.stride()) {
    const auto rows = static_cast<size_t>(c.row_begin.back());
    out.resize(rows * static_cast<size_t>(c.num_heads * c.head_dim));
    d_qkv.resize(rows * static_cast<size_t>(stride));
    d_given.resize(static_cast<size_t>(c.PrefixBegin(c.prefix_tokens.size()) * c.prefix_stride()));
    for (size_t sequence = 0; sequence + 1 < c.row_begin.size(); ++sequence) {
      for (int32_t row = c.row_begin[sequence]; row < c.row_begin[sequence + 1]; ++row) {
        for (int32_t head = 0; head < c.num_heads; ++head) {
          AddRow(qkv, given, apart, d_out, scale, sequence, row, head);
        }
      }
    }
  }

  // A key and, `values` further on, its value; and their gradients.
  template <typename T>
  struct Seen {
    const Input<T>* from;
    int64_t at;
    double* gradient;
  };

  template <typename T, typename D>
  void AddRow(const Input<T>& qkv, const Input<T>& given, int64_t apart, const Input<D>& d_out,
              double scale, size_t sequence, int32_t row, int32_t head) {
    const Case& c = case_;
    const int64_t query = int64_t{row} * stride + head * c.head_dim;
    const int64_t out_at = (int64_t{row} * c.num_heads + head) * c.head_dim;
    const int64_t kv_column = int64_t{head / (c.num_heads / c.num_kv_heads)} * c.head_dim;
    const int64_t values = int64_t{c.num_kv_heads} * c.head_dim;
    std::vector<Seen<T>> seen;
    for (int64_t i = 0; !c.prefix_tokens.empty() && i < c.prefix_tokens[sequence]; ++i) {
      const int64_t position = c.PrefixBegin(sequence) + i;
      seen.push_back({&given, position * apart + kv_column,
                      d_given.data() + position * c.prefix_stride() + kv_column});
    }
    for (int64_t s = c.row_begin[sequence]; s <= row; ++s) {
      const int64_t at = s * stride + int64_t{c.num_heads} * c.head_dim + kv_column;
      seen.push_back({&qkv, at, d_qkv.data() + at});
    }
    std::vector<double> weights, worths;
    double sum = 0.0, mean = 0.0;
    for (const Seen<T>& key : seen) {
      double score = 0.0, worth = 0.0;
      for (int32_t i = 0; i < c.head_dim; ++i) {
        score += qkv.At(query + i) * key.from->At(key.at + i);
        worth += d_out.At(out_at + i) * key.from->At(key.at + values + i);
      }
      weights.push_back(std::exp(score * scale));
      worths.push_back(worth);
      sum += weights.back();
    }
    for (size_t s = 0; s < weights.size(); ++s) {
      weights[s] /= sum;
      mean += weights[s] * worths[s];
    }
    for (size_t s = 0; s < weights.size(); ++s) {
      const double gradient = weights[s] * (worths[s] - mean) * scale;
      const Seen<T>& key = seen[s];
      for (int32_t i = 0; i < c.head_dim; ++i) {
        out[static_cast<size_t>(out_at + i)] += weights[s] * key.from->At(key.at + values + i);
        d_qkv[static_cast<size_t>(query + i)] += gradient * key.from->At(key.at + i);
        key.gradient[i] += gradient * qkv.At(query + i);
        key.gradient[values + i] += weights[s] * d_out.At(out_at + i);
      }
    }
  }

  void TurnBack(const Shared<int32_t>& positions, const Shared<float>& cos,
                const Shared<float>& back_sin) {
    const int32_t half = case_.head_dim / 2;
    for (int64_t row = 0; row < case_.row_begin.back(); ++row) {
      for (int32_t head = 0; head < case_.num_heads + case_.num_kv_heads; ++head) {
        for (int32_t i = 0; i < half; ++i) {
          const auto angle = static_cast<size_t>(positions[static_cast<size_t>(row)] * half + i);
          const auto at = static_cast<size_t>(row * stride + head * case_.head_dim + i);
          const double low = d_qkv[at], high = d_qkv[at + static_cast<size_t>(half)];
          const auto c = static_cast<double>(cos[angle]), s = static_cast<double>(back_sin[angle]);
          d_qkv[at] = low * c - high * s;
          d_qkv[at + static_cast<size_t>(half)] = high * c + low * s;
        }
      }
    }
  }

  const Case& case_;
  int32_t stride;
  std::vector<double> out, d_qkv, d_given;
};

// What AttentionBackward says of positions: those of rows, behind a prefix's, and their turns.
struct Turns {
  explicit Turns(const Case& c) {
    for (size_t s = 0; s + 1 < c.row_begin.size(); ++s) {
      const int32_t rows = c.row_begin[s + 1] - c.row_begin[s];
      const int32_t before = c.prefix_tokens.empty() ? 0 : c.prefix_tokens[s];
      for (int32_t i = 0; i < rows; ++i) positions.push_back(before + i);
      rows_max = std::max(rows_max, rows);
      prefix_max = std::max(prefix_max, before);
    }
    for (int32_t i = 0; i < (prefix_max + rows_max) * c.head_dim / 2; ++i) {
      cos.push_back(static_cast<float>(std::cos(0.1 * i)));
      back_sin.push_back(static_cast<float>(-std::sin(0.1 * i)));
    }
  }
  std::vector<int32_t> positions;
  std::vector<float> cos, back_sin;
  int32_t rows_max = 0, prefix_max = 0;  // of a sequence
};

template <typename T>
void ExpectNear(const Output<T>& actual, const std::vector<double>& expected, double tolerance,
                const char* what, int64_t columns) {
  EXPECT_TRUE(actual.GuardsIntact());
  double largest = 0.0;
  for (const double d : expected) largest = std::max(largest, std::fabs(d));
  for (int64_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual.At(i), expected[static_cast<size_t>(i)], tolerance * largest)
        << what << " " << i / columns << ", column " << i % columns << ", of "
        << actual.size() / columns;
  }
}

template <typename T, typename D>
void ExpectMatchesOnGpu(const Case& c, double tolerance) {
  const int32_t rows = c.row_begin.back();
  const int32_t before = c.PrefixBegin(c.prefix_tokens.size());
  const int64_t out_n = int64_t{rows} * c.num_heads * c.head_dim;
  const auto qkv = Input<T>::Normal(int64_t{rows} * c.stride(), 1);
  const int64_t apart = c.prefix_stride() + 16;  // a gap, on a border
  const auto given = Input<T>::Normal(int64_t{before} * apart + 1, 3);
  const auto d_out = Input<D>::Normal(out_n, 2);
  const double scale = 1.0 / std::sqrt(c.head_dim);
  const Turns turns(c);
  const Shared<int32_t> positions(turns.positions), row_begin(c.row_begin);
  const Shared<float> cos(turns.cos), back_sin(turns.back_sin);
  DoubleReference reference(c, qkv, given, apart, d_out, scale);
  reference.TurnBack(positions, cos, back_sin);
  Input<T> out(out_n);
  for (int64_t i = 0; i < out_n; ++i) {
    out[i] = FromFloat<T>(static_cast<float>(reference.out[static_cast<size_t>(i)]));
  }
  testing::ForFirstGpu([&](Stream& stream) {
    Output<T> d_qkv(int64_t{rows} * c.stride());
    Output<float> d_given(int64_t{before} * c.prefix_stride());
    std::vector<AttentionPrefix> list;
    for (size_t i = 0; i < c.prefix_tokens.size(); ++i) {
      const int64_t first = c.PrefixBegin(i);
      list.push_back({c.prefix_tokens[i], given.data() + first * apart, apart,
                      d_given.data() + first * c.prefix_stride()});
    }
    const Shared<AttentionPrefix> prefixes(list);
    Buffer scratch(AttentionBackwardGpuFloats(rows, c.num_heads, c.head_dim, DTypeOf<T>()) *
                       int64_t{sizeof(float)},
                   stream.device);
    AttentionBackward({.row_begin = row_begin.data(),
                       .num_sequences = static_cast<int32_t>(row_begin.size()) - 1,
                       .num_heads = c.num_heads,
                       .num_kv_heads = c.num_kv_heads,
                       .head_dim = c.head_dim,
                       .scale = static_cast<float>(scale),
                       .dtype = DTypeOf<T>(),
                       .qkv = qkv.data(),
                       .qkv_stride = c.stride(),
                       .d_out = d_out.data(),
                       .d_dtype = DTypeOf<D>(),
                       .d_qkv = d_qkv.data(),
                       .prefixes = before == 0 ? nullptr : prefixes.data(),
                       .scratch = scratch.as<float>(),
                       .num_rows = rows,
                       .sequence_rows_max = turns.rows_max,
                       .prefix_tokens_max = turns.prefix_max,
                       .out = out.data(),
                       .positions = positions.data(),
                       .cos = cos.data(),
                       .back_sin = back_sin.data()},
                      stream);
    Synchronize(stream);
    ExpectNear(d_qkv, reference.d_qkv, tolerance, "row", c.stride());
    ExpectNear(d_given, reference.d_given, tolerance, "position", c.prefix_stride());
  });
}

TEST(AttentionBackwardTest, MatchesReferenceOnAGpu) {
  if (NumCudaDevices() == 0) GTEST_SKIP() << "no GPU here";
  const Case cases[] = {{{0, 1}, 1, 1, 2}, {{0, 5, 5, 8}, 4, 2, 6}, {{0, 70}, 2, 1, 20}};
  for (const Case& c : cases) ExpectMatchesOnGpu<float, float>(c, 1e-5);
  for (const int32_t head_dim : {64, 128}) {
    if (!CheckAttentionBackward(DType::kBF16, head_dim, {DeviceKind::kCuda, 0}).ok()) continue;
    const Case rounded[] = {{{0, 1}, 1, 1, head_dim},
                            {{0, 31, 31, 64}, 2, 2, head_dim},
                            {{0, 64, 192, 193}, 4, 1, head_dim},
                            {{0, 130, 131, 200}, 6, 2, head_dim}};
    for (const Case& c : rounded) {
      ExpectMatchesOnGpu<Bfloat16, float>(c, 1e-2);
      ExpectMatchesOnGpu<Bfloat16, Bfloat16>(c, 1e-2);
    }
  }
}

// Also of a sequence without rows, and of one without a prefix beside others that have one.
TEST(AttentionBackwardTest, MatchesReferenceBehindPrefixesOnAGpu) {
  if (NumCudaDevices() == 0) GTEST_SKIP() << "no GPU here";
  const Case cases[] = {{{0, 1}, 1, 1, 2, {1}},
                        {{0, 5, 5, 8, 10}, 4, 2, 6, {3, 2, 0, 17}},
                        {{0, 70}, 2, 1, 20, {40}}};
  for (const Case& c : cases) ExpectMatchesOnGpu<float, float>(c, 1e-5);
  for (const int32_t head_dim : {64, 128}) {
    if (!CheckAttentionBackward(DType::kBF16, head_dim, {DeviceKind::kCuda, 0}).ok()) continue;
    const Case rounded[] = {{{0, 1}, 1, 1, head_dim, {1}},
                            {{0, 31, 31, 64}, 2, 2, head_dim, {32, 5, 0}},
                            {{0, 64, 192, 193}, 4, 1, head_dim, {64, 0, 70}},
                            {{0, 130, 131, 200}, 6, 2, head_dim, {131, 64, 33}}};
    for (const Case& c : rounded) {
      ExpectMatchesOnGpu<Bfloat16, float>(c, 1e-2);
      ExpectMatchesOnGpu<Bfloat16, Bfloat16>(c, 1e-2);
    }
  }
}

}  // namespace attention_backward_test
}  // namespace graft
