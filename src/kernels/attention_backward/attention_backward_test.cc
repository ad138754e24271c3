#include "kernels/attention_backward/attention_backward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
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
  int32_t window = 0;
  double cap = 0.0;
  double scale = 0.0;      // 0: 1 / sqrt(head_dim)
  int32_t rotary_dim = 0;  // of turning back; below 0: it does not turn
  bool interleaved = false;
  bool scales_queries = false;

  int32_t stride() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
  int32_t prefix_stride() const { return 2 * num_kv_heads * head_dim; }
  int32_t num_sequences() const { return static_cast<int32_t>(row_begin.size()) - 1; }
  int32_t PrefixTokens(size_t sequence) const {
    return prefix_tokens.empty() ? 0 : prefix_tokens[sequence];
  }
  int32_t PrefixBegin(size_t sequence) const {
    return std::accumulate(
        prefix_tokens.begin(),
        prefix_tokens.begin() + static_cast<std::ptrdiff_t>(prefix_tokens.empty() ? 0 : sequence),
        0);
  }
  int32_t num_before() const { return PrefixBegin(prefix_tokens.size()); }
  // The first position of its sequence that the row at `position` sees.
  int32_t FirstSeen(int32_t position) const {
    return window > 0 ? std::max(position - window + 1, 0) : 0;
  }
  double Scale() const { return scale > 0.0 ? scale : 1.0 / std::sqrt(head_dim); }
  double Score(double product) const {
    const double score = product * Scale();
    return cap > 0.0 ? cap * std::tanh(score / cap) : score;
  }
  // The derivative of Score by the product.
  double Slope(double product) const {
    if (cap == 0.0) return Scale();
    const double tangent = std::tanh(product * Scale() / cap);
    return (1.0 - tangent * tangent) * Scale();
  }
  std::string Text() const {
    return "rows " + std::to_string(row_begin.back()) + ", " + std::to_string(num_heads) + "/" +
           std::to_string(num_kv_heads) + " heads of " + std::to_string(head_dim) + ", prefixes " +
           std::to_string(num_before()) + ", window " + std::to_string(window) + ", cap " +
           std::to_string(cap) + ", scale " + std::to_string(scale) + ", rotary " +
           std::to_string(rotary_dim) + (interleaved ? ", neighbours" : "") +
           (scales_queries ? ", scaled queries" : "");
  }
};

// Every case also with a window of one, one that ends inside of tiles of 64, one on their border,
// and one longer than everything; with a cap that is felt; and with another scale.
std::vector<Case> Variants(const std::vector<Case>& cases) {
  std::vector<Case> all;
  for (const Case& plain : cases) {
    for (const int32_t window : {0, 1, 7, 64, 100, 100000}) {
      for (const double cap : {0.0, 1.5}) {
        Case c = plain;
        c.window = window;
        c.cap = cap;
        if (window == 7) c.scale = 0.3;
        all.push_back(c);
      }
    }
  }
  return all;
}

// The sum of d_out * attention(numbers), in double; numbers: qkv, and then the prefixes.
double Objective(const Case& c, const std::vector<double>& numbers, const Input<float>& d_out) {
  const int32_t stride = c.stride();
  const double* const qkv = numbers.data();
  const double* const prefixes = qkv + int64_t{c.row_begin.back()} * stride;
  double total = 0.0;
  for (size_t sequence = 0; sequence + 1 < c.row_begin.size(); ++sequence) {
    const int32_t before = c.PrefixTokens(sequence), begin = c.row_begin[sequence];
    for (int32_t row = begin; row < c.row_begin[sequence + 1]; ++row) {
      for (int32_t head = 0; head < c.num_heads; ++head) {
        const int32_t kv = head / (c.num_heads / c.num_kv_heads);
        const int32_t key = (c.num_heads + kv) * c.head_dim;
        const int32_t values = c.num_kv_heads * c.head_dim;
        double sum = 0.0, weighted = 0.0;
        const int32_t position = before + row - begin;
        for (int32_t s = c.FirstSeen(position); s <= position; ++s) {
          const double* const keys =
              s < before ? prefixes + int64_t{c.PrefixBegin(sequence) + s} * c.prefix_stride() +
                               kv * c.head_dim
                         : qkv + (begin + s - before) * stride + key;
          double product = 0.0, worth = 0.0;
          for (int32_t i = 0; i < c.head_dim; ++i) {
            product += qkv[row * stride + head * c.head_dim + i] * keys[i];
            worth +=
                keys[values + i] * d_out.At((int64_t{row} * c.num_heads + head) * c.head_dim + i);
          }
          const double weight = std::exp(c.Score(product));
          sum += weight;
          weighted += weight * worth;
        }
        total += weighted / sum;
      }
    }
  }
  return total;
}

// All of d_qkv, of the prefixes' gradients and of attention's output in double. Positions of
// `given` are `apart` elements apart.
struct DoubleReference {
  template <typename T, typename D>
  DoubleReference(const Case& c, const Input<T>& qkv, const Input<T>& given, int64_t apart,
                  const Input<D>& d_out)
      : case_(c), stride(c.stride()) {
    const auto rows = static_cast<size_t>(c.row_begin.back());
    out.resize(rows * static_cast<size_t>(c.num_heads * c.head_dim));
    d_qkv.resize(rows * static_cast<size_t>(stride));
    d_given.resize(static_cast<size_t>(c.num_before() * c.prefix_stride()));
    for (size_t sequence = 0; sequence + 1 < c.row_begin.size(); ++sequence) {
      for (int32_t row = c.row_begin[sequence]; row < c.row_begin[sequence + 1]; ++row) {
        for (int32_t head = 0; head < c.num_heads; ++head) {
          AddRow(qkv, given, apart, d_out, sequence, row, head);
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
    double weight;
    double worth;
    double slope;
  };

  template <typename T, typename D>
  void AddRow(const Input<T>& qkv, const Input<T>& given, int64_t apart, const Input<D>& d_out,
              size_t sequence, int32_t row, int32_t head) {
    const Case& c = case_;
    const int64_t query = int64_t{row} * stride + head * c.head_dim;
    const int64_t out_at = (int64_t{row} * c.num_heads + head) * c.head_dim;
    const int64_t kv_column = int64_t{head / (c.num_heads / c.num_kv_heads)} * c.head_dim;
    const int64_t values = int64_t{c.num_kv_heads} * c.head_dim;
    const int32_t before = c.PrefixTokens(sequence), begin = c.row_begin[sequence];
    const int32_t position = before + row - begin;
    std::vector<Seen<T>> seen;
    for (int32_t s = c.FirstSeen(position); s <= position; ++s) {
      if (s < before) {
        const int64_t at = c.PrefixBegin(sequence) + s;
        seen.push_back(
            {&given, at * apart + kv_column, d_given.data() + at * c.prefix_stride() + kv_column});
        continue;
      }
      const int64_t at =
          (begin + s - before) * stride + int64_t{c.num_heads} * c.head_dim + kv_column;
      seen.push_back({&qkv, at, d_qkv.data() + at});
    }
    double sum = 0.0, mean = 0.0;
    for (Seen<T>& key : seen) {
      double product = 0.0;
      key.worth = 0.0;
      for (int32_t i = 0; i < c.head_dim; ++i) {
        product += qkv.At(query + i) * key.from->At(key.at + i);
        key.worth += d_out.At(out_at + i) * key.from->At(key.at + values + i);
      }
      key.weight = std::exp(c.Score(product));
      key.slope = c.Slope(product);
      sum += key.weight;
      mean += key.weight * key.worth;
    }
    for (Seen<T>& key : seen) {
      const double weight = key.weight / sum;
      const double gradient = weight * (key.worth - mean / sum) * key.slope;
      for (int32_t i = 0; i < c.head_dim; ++i) {
        out[static_cast<size_t>(out_at + i)] += weight * key.from->At(key.at + values + i);
        d_qkv[static_cast<size_t>(query + i)] += gradient * key.from->At(key.at + i);
        key.gradient[i] += gradient * qkv.At(query + i);
        key.gradient[values + i] += weight * d_out.At(out_at + i);
      }
    }
  }

  void TurnBack(int32_t half, const Shared<int32_t>& positions, const Shared<float>& cos,
                const Shared<float>& back_sin) {
    for (int64_t row = 0; row < case_.row_begin.back(); ++row) {
      for (int32_t head = 0; head < case_.num_heads + case_.num_kv_heads; ++head) {
        for (int32_t i = 0; i < half; ++i) {
          const auto angle = static_cast<size_t>(positions[static_cast<size_t>(row)] * half + i);
          const int64_t first = row * stride + head * case_.head_dim;
          const auto at = static_cast<size_t>(first + (case_.interleaved ? 2 * i : i));
          const auto other = at + static_cast<size_t>(case_.interleaved ? 1 : half);
          const double low = d_qkv[at], high = d_qkv[other];
          const auto c = static_cast<double>(cos[angle]), s = static_cast<double>(back_sin[angle]);
          d_qkv[at] = low * c - high * s;
          d_qkv[other] = high * c + low * s;
        }
      }
    }
  }

  void ScaleQueries(const Shared<int32_t>& positions, const Shared<float>& scales) {
    const int64_t n = int64_t{case_.num_heads} * case_.head_dim;
    for (int64_t row = 0; row < case_.row_begin.back(); ++row) {
      const auto position = static_cast<size_t>(positions[static_cast<size_t>(row)]);
      for (int64_t i = 0; i < n; ++i)
        d_qkv[static_cast<size_t>(row * stride + i)] *= scales[position];
    }
  }

  const Case& case_;
  int32_t stride;
  std::vector<double> out, d_qkv, d_given;
};

// What AttentionBackward says of positions: those of rows, behind a prefix's, and their turns.
struct Turns {
  explicit Turns(const Case& c)
      : half(c.rotary_dim < 0 ? 0 : (c.rotary_dim > 0 ? c.rotary_dim : c.head_dim) / 2) {
    for (size_t s = 0; s + 1 < c.row_begin.size(); ++s) {
      const int32_t rows = c.row_begin[s + 1] - c.row_begin[s];
      const int32_t before = c.PrefixTokens(s);
      for (int32_t i = 0; i < rows; ++i) positions.push_back(before + i);
      rows_max = std::max(rows_max, rows);
      prefix_max = std::max(prefix_max, before);
    }
    for (int32_t i = 0; i < (prefix_max + rows_max) * half; ++i) {
      cos.push_back(static_cast<float>(std::cos(0.1 * i)));
      back_sin.push_back(static_cast<float>(-std::sin(0.1 * i)));
    }
    for (int32_t i = 0; i < prefix_max + rows_max; ++i) {
      query_scale.push_back(1.0f + 0.25f * static_cast<float>(i / 3));
    }
  }
  int32_t half;
  std::vector<int32_t> positions;
  std::vector<float> cos, back_sin, query_scale;
  int32_t rows_max = 0, prefix_max = 0;  // of a sequence
};

// A case's operands, from the same seeds each time; and what it gives on a device.
template <typename T, typename D>
struct Operands {
  explicit Operands(const Case& c)
      : c(c),
        apart(c.prefix_stride() + 16),  // a gap between positions, on a border
        qkv(Input<T>::Normal(int64_t{c.row_begin.back()} * c.stride(), 1)),
        given(Input<T>::Normal(int64_t{c.num_before()} * apart + 1, 3)),
        d_out(Input<D>::Normal(int64_t{c.row_begin.back()} * c.num_heads * c.head_dim, 2)),
        out(Input<T>::Normal(d_out.size(), 4)),
        turns(c),
        row_begin(c.row_begin),
        positions(turns.positions),
        cos(turns.cos),
        back_sin(turns.back_sin),
        query_scale(turns.query_scale) {}

  struct Results {
    Output<T> d_qkv;
    Output<float> d_given;
  };

  Results RunOn(Stream& stream, bool turns_back = true) const {
    const int32_t rows = c.row_begin.back();
    Results results{Output<T>(int64_t{rows} * c.stride()),
                    Output<float>(int64_t{c.num_before()} * c.prefix_stride())};
    std::vector<AttentionPrefix> list;
    for (size_t i = 0; i < c.prefix_tokens.size(); ++i) {
      const int64_t first = c.PrefixBegin(i);
      list.push_back({c.prefix_tokens[i], given.data() + first * apart, apart,
                      results.d_given.data() + first * c.prefix_stride()});
    }
    const Shared<AttentionPrefix> prefixes(list);
    const bool is_cpu = stream.device.is_cpu();
    const int64_t scratch_floats =
        is_cpu ? AttentionBackwardFloats(turns.rows_max + turns.prefix_max, c.head_dim,
                                         stream.cpu_threads->num_threads())
               : AttentionBackwardGpuFloats(rows, c.num_heads, c.head_dim, DTypeOf<T>());
    Buffer scratch(scratch_floats * int64_t{sizeof(float)}, stream.device);
    AttentionBackwardArgs args{.row_begin = row_begin.data(),
                               .num_sequences = c.num_sequences(),
                               .num_heads = c.num_heads,
                               .num_kv_heads = c.num_kv_heads,
                               .head_dim = c.head_dim,
                               .scale = static_cast<float>(c.Scale()),
                               .score_cap = static_cast<float>(c.cap),
                               .window = c.window,
                               .dtype = DTypeOf<T>(),
                               .qkv = qkv.data(),
                               .qkv_stride = c.stride(),
                               .d_out = d_out.data(),
                               .d_dtype = DTypeOf<D>(),
                               .d_qkv = results.d_qkv.data(),
                               .prefixes = c.num_before() == 0 ? nullptr : prefixes.data(),
                               .scratch = scratch.template as<float>()};
    if (!is_cpu) {
      args.num_rows = rows;
      args.sequence_rows_max = turns.rows_max;
      args.prefix_tokens_max = turns.prefix_max;
      args.out = out.data();
    }
    if (turns_back && turns.half > 0) {
      args.rotary_dim = std::max(c.rotary_dim, 0);
      args.interleaved = c.interleaved;
      args.positions = positions.data();
      args.cos = cos.data();
      args.back_sin = back_sin.data();
    }
    if (c.scales_queries) {
      args.positions = positions.data();
      args.query_scale = query_scale.data();
    }
    AttentionBackward(args, stream);
    Synchronize(stream);
    EXPECT_TRUE(results.d_qkv.GuardsIntact() && results.d_given.GuardsIntact());
    return results;
  }

  const Case& c;
  int64_t apart;
  Input<T> qkv, given;
  Input<D> d_out;
  Input<T> out;  // what attention made, for GPUs
  Turns turns;
  Shared<int32_t> row_begin, positions;
  Shared<float> cos, back_sin, query_scale;
};

// Against central differences in double, over grouped heads, odd sizes and several sequences, some
// of them behind prefixes, with windows and caps.
TEST(AttentionBackwardTest, MatchesFiniteDifferences) {
  ThreadPool threads(2);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const std::vector<Case> plain = {{{0, 1}, 1, 1, 1},
                                   {{0, 5, 5, 8}, 4, 2, 6},
                                   {{0, 18}, 2, 1, 20},
                                   {{0, 5, 5, 8, 10}, 4, 2, 6, {3, 2, 0, 17}},
                                   {{0, 1}, 2, 1, 20, {1}}};
  for (const Case& c : Variants(plain)) {
    SCOPED_TRACE(c.Text());
    Operands<float, float> operands(c);
    const auto results = operands.RunOn(stream, /*turns_back=*/false);
    std::vector<double> moved;
    for (int64_t i = 0; i < operands.qkv.size(); ++i) moved.push_back(operands.qkv.At(i));
    for (int64_t s = 0; s < c.num_before(); ++s) {
      for (int64_t i = 0; i < c.prefix_stride(); ++i) {
        moved.push_back(operands.given.At(s * operands.apart + i));
      }
    }
    for (size_t i = 0; i < moved.size(); i += 1 + moved.size() / 60) {
      const double at = moved[i];
      moved[i] = at + 1e-5;
      const double above = Objective(c, moved, operands.d_out);
      moved[i] = at - 1e-5;
      const double below = Objective(c, moved, operands.d_out);
      moved[i] = at;
      const auto index = static_cast<int64_t>(i), own = operands.qkv.size();
      const float got = index < own ? results.d_qkv[index] : results.d_given[index - own];
      ASSERT_NEAR(got, (above - below) / 2e-5, 2e-5) << i;
    }
  }
}

template <typename T>
void ExpectNear(const Output<T>& actual, const std::vector<double>& expected, double tolerance,
                const char* what, int64_t columns) {
  double largest = 0.0;
  for (const double d : expected) largest = std::max(largest, std::fabs(d));
  for (int64_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual.At(i), expected[static_cast<size_t>(i)], tolerance * largest)
        << what << " " << i / columns << ", column " << i % columns << ", of "
        << actual.size() / columns;
  }
}

template <typename T, typename D>
void ExpectMatches(const Case& c, double tolerance) {
  SCOPED_TRACE(c.Text());
  Operands<T, D> operands(c);
  DoubleReference reference(c, operands.qkv, operands.given, operands.apart, operands.d_out);
  for (int64_t i = 0; i < operands.out.size(); ++i) {
    operands.out[i] = FromFloat<T>(static_cast<float>(reference.out[static_cast<size_t>(i)]));
  }
  reference.TurnBack(operands.turns.half, operands.positions, operands.cos, operands.back_sin);
  if (c.scales_queries) reference.ScaleQueries(operands.positions, operands.query_scale);
  const auto expect = [&](Stream& stream) {
    const auto results = operands.RunOn(stream);
    ExpectNear(results.d_qkv, reference.d_qkv, tolerance, "row", c.stride());
    ExpectNear(results.d_given, reference.d_given, tolerance, "position", c.prefix_stride());
  };
  // The CPU has fp32 alone.
  const char* const devices = std::getenv("GRAFT_TEST_DEVICES");
  const bool has_cpu = devices == nullptr || std::string(devices) != "gpu";
  if (DTypeOf<T>() == DType::kF32 && has_cpu) testing::ForEachCpu(expect);
  testing::ForFirstGpu(expect);
}

TEST(AttentionBackwardTest, MatchesReference) {
  const std::vector<Case> plain = {{{0, 1}, 1, 1, 2},
                                   {{0, 5, 5, 8}, 4, 2, 6},
                                   {{0, 70}, 2, 1, 20},
                                   {{0, 5, 5, 8, 10}, 4, 2, 6, {3, 2, 0, 17}},
                                   {{0, 70}, 2, 1, 20, {40}}};
  for (const Case& c : Variants(plain)) ExpectMatches<float, float>(c, 1e-5);
  for (const int32_t head_dim : {64, 96, 128, 250, 256}) {
    ExpectMatches<float, float>({{0, 19, 40}, 2, 1, head_dim, {0, 5}, 9, 2.0}, 1e-5);
  }
  for (const bool interleaved : {false, true}) {
    for (const int32_t rotary_dim : {6, 20}) {
      ExpectMatches<float, float>({.row_begin = {0, 33},
                                   .num_heads = 2,
                                   .num_kv_heads = 1,
                                   .head_dim = 20,
                                   .rotary_dim = rotary_dim,
                                   .interleaved = interleaved},
                                  1e-5);
    }
  }
  ExpectMatches<float, float>(
      {.row_begin = {0, 33}, .num_heads = 2, .num_kv_heads = 2, .head_dim = 20, .rotary_dim = -1},
      1e-5);
}

bool HasBfloat16() {
  return NumCudaDevices() > 0 &&
         CheckAttentionBackward(DType::kBF16, 64, {DeviceKind::kCuda, 0}).ok();
}

void ExpectRoundedMatches(const Case& c) {
  ExpectMatches<Bfloat16, float>(c, 1e-2);
  ExpectMatches<Bfloat16, Bfloat16>(c, 1e-2);
}

// Full attention, over borders of tiles of 64: every kernel in bf16, heads that fill one of the
// tensor cores' sizes, that are filled up, and that no tensor core takes. Also a sequence without
// rows, and one without a prefix beside others that have one.
TEST(AttentionBackwardTest, RoundedMatchesReferenceOnAGpu) {
  if (!HasBfloat16()) GTEST_SKIP() << "no GPU here";
  for (const int32_t head_dim : {64, 128, 96, 256, 8, 80, 112, 160, 20, 250}) {
    for (const Case& c :
         {Case{{0, 1}, 1, 1, head_dim}, Case{{0, 31, 31, 64}, 2, 2, head_dim},
          Case{{0, 64, 192, 193}, 4, 1, head_dim}, Case{{0, 130, 131, 200}, 6, 2, head_dim},
          Case{{0, 1}, 1, 1, head_dim, {1}}, Case{{0, 31, 31, 64}, 2, 2, head_dim, {32, 5, 0}},
          Case{{0, 64, 192, 193}, 4, 1, head_dim, {64, 0, 70}},
          Case{{0, 130, 131, 200}, 6, 2, head_dim, {131, 64, 33}}}) {
      ExpectRoundedMatches(c);
    }
  }
}

TEST(AttentionBackwardTest, RoundedWindowsAndCapsMatchReferenceOnAGpu) {
  if (!HasBfloat16()) GTEST_SKIP() << "no GPU here";
  for (const int32_t head_dim : {64, 96, 128, 256, 72, 20}) {
    const std::vector<Case> plain = {{{0, 1}, 1, 1, head_dim},
                                     {{0, 64, 192, 193}, 4, 1, head_dim},
                                     {{0, 130, 131, 300}, 2, 1, head_dim, {131, 64, 33}}};
    // Each type has a reference of its own, so they take turns among windows and caps.
    const std::vector<Case> cases = Variants(plain);
    for (size_t i = 0; i < cases.size(); ++i) {
      if ((i / 2 + i) % 2 == 0) {
        ExpectMatches<Bfloat16, float>(cases[i], 1e-2);
      } else {
        ExpectMatches<Bfloat16, Bfloat16>(cases[i], 1e-2);
      }
    }
  }
}

// What a layer without rope, or with a rope of some dimensions, asks for.
TEST(AttentionBackwardTest, RoundedHeadsThatTurnInPartOnAGpu) {
  if (!HasBfloat16()) GTEST_SKIP() << "no GPU here";
  for (const int32_t head_dim : {64, 80, 96, 128, 256, 20}) {
    for (const int32_t rotary_dim : {-1, 2, 10, head_dim / 2, head_dim}) {
      for (const bool interleaved : {false, true}) {
        ExpectRoundedMatches({.row_begin = {0, 70, 100},
                              .num_heads = 4,
                              .num_kv_heads = 2,
                              .head_dim = head_dim,
                              .rotary_dim = rotary_dim,
                              .interleaved = interleaved});
      }
    }
  }
}

// As Ministral 3 scales them by their positions, which count from the first one of a prefix.
TEST(AttentionBackwardTest, QueriesThatWereScaledMatchReference) {
  const auto case_of = [](int32_t head_dim, int32_t rotary_dim) {
    return Case{.row_begin = {0, 33, 33, 103},
                .num_heads = 4,
                .num_kv_heads = 2,
                .head_dim = head_dim,
                .prefix_tokens = {0, 2, 5},
                .rotary_dim = rotary_dim,
                .scales_queries = true};
  };
  for (const int32_t rotary_dim : {-1, 0, 6}) {
    ExpectMatches<float, float>(case_of(20, rotary_dim), 1e-5);
    if (!HasBfloat16()) continue;
    for (const int32_t head_dim : {64, 128, 96, 256, 20}) {
      ExpectRoundedMatches(case_of(head_dim, rotary_dim));
    }
  }
}

template <typename T>
void ExpectSameBits(const Output<T>& a, int64_t from, const Output<T>& b) {
  EXPECT_TRUE(testing::BitEqual(a.data() + from, b.data(), b.size()));
}

// A window that hides nothing changes no bit, nor do other sequences of the batch.
template <typename T>
void ExpectSameBitsBesideOthers(const Case& alone, const Case& beside, Stream& stream) {
  Case wide = alone;
  wide.window = 1000;
  const Operands<T, T> mine(alone), hidden(wide);
  const auto results = mine.RunOn(stream);
  ExpectSameBits(results.d_qkv, 0, hidden.RunOn(stream).d_qkv);
  // The first sequence has the same numbers in both: they are drawn in order.
  const Operands<T, T> others(beside);
  const auto together = others.RunOn(stream);
  ExpectSameBits(together.d_qkv, 0, results.d_qkv);
}

TEST(AttentionBackwardTest, SameBitsBesideOthersAndInWindowsThatHideNothing) {
  for (const int32_t head_dim : {20, 96, 256}) {
    const Case alone{
        .row_begin = {0, 70}, .num_heads = 4, .num_kv_heads = 2, .head_dim = head_dim, .cap = 2.0};
    Case beside = alone;
    beside.row_begin = {0, 70, 71, 150};
    testing::ForEachDevice(
        [&](Stream& stream) { ExpectSameBitsBesideOthers<float>(alone, beside, stream); });
    if (!HasBfloat16()) continue;
    testing::ForFirstGpu(
        [&](Stream& stream) { ExpectSameBitsBesideOthers<Bfloat16>(alone, beside, stream); });
  }
}

TEST(AttentionBackwardTest, SaysWhichHeadsHaveAKernel) {
  EXPECT_TRUE(CheckAttentionBackward(DType::kF32, 7, {}).ok());
  const Status rounded = CheckAttentionBackward(DType::kBF16, 64, {});
  EXPECT_FALSE(rounded.ok());
  EXPECT_NE(rounded.ToString().find("the CPU has fp32 for all"), std::string::npos)
      << rounded.ToString();
  const Device gpu{DeviceKind::kCuda, 0};
  for (const int32_t head_dim : {2, 64, 96, 100, 128, 256}) {
    EXPECT_TRUE(CheckAttentionBackward(DType::kBF16, head_dim, gpu).ok()) << head_dim;
    EXPECT_TRUE(CheckAttentionBackward(DType::kF32, head_dim, gpu).ok()) << head_dim;
  }
  for (const int32_t head_dim : {7, 258}) {
    EXPECT_FALSE(CheckAttentionBackward(DType::kBF16, head_dim, gpu).ok()) << head_dim;
  }
  EXPECT_FALSE(CheckAttentionBackward(DType::kF16, 64, gpu).ok());
}

}  // namespace attention_backward_test
}  // namespace graft
