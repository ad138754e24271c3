#include "kernels/kv_rows/kv_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace kv_rows_test {

using testing::ForEachDevice;
using testing::Input;
using testing::Output;
using testing::Shared;

struct Case {
  int32_t num_kv_heads, head_dim, rotary_dim;
  bool interleaved;
};
constexpr Case kCases[] = {
    {1, 2, 2, false}, {2, 64, 64, false}, {3, 80, 32, false}, {2, 24, 16, true}};
constexpr int32_t kRows = 7, kPositions = 40;
// Rows in no order; positions of tokens below 0, where they are, and far ahead.
constexpr int32_t kPlaces[][3] = {{5, 5, -12}, {0, 3, 3}, {2, 17, 39}, {6, 30, 0}};
constexpr int32_t kTaken = 4;

double AngleOf(int32_t position, int32_t i, const Case& c) {
  return position * std::pow(50.0, -2.0 * i / c.rotary_dim);
}

// A head's key turned by so many positions, in doubles.
std::vector<double> Turned(std::vector<double> x, int32_t positions, const Case& c) {
  const int32_t half = c.rotary_dim / 2;
  for (int32_t i = 0; i < half; ++i) {
    const auto first = static_cast<size_t>(c.interleaved ? 2 * i : i);
    const auto second = static_cast<size_t>(c.interleaved ? 2 * i + 1 : i + half);
    const double cos = std::cos(AngleOf(positions, i, c)), sin = std::sin(AngleOf(positions, i, c));
    const double low = x[first], high = x[second];
    x[first] = low * cos - high * sin;
    x[second] = high * cos + low * sin;
  }
  return x;
}

struct Tables {
  explicit Tables(const Case& c) : cos(kPositions * c.rotary_dim / 2), sin(cos.size()) {
    for (int64_t i = 0; i < cos.size(); ++i) {
      const int32_t half = c.rotary_dim / 2;
      const double angle =
          AngleOf(static_cast<int32_t>(i) / half, static_cast<int32_t>(i) % half, c);
      cos[i] = static_cast<float>(std::cos(angle));
      sin[i] = static_cast<float>(std::sin(angle));
    }
  }
  Input<float> cos, sin;
};

// For both ways: `rows` have keys and values behind a column of queries, `tokens` two layers.
void ExpectRight(const Case& c, bool adds, Stream& stream) {
  const Tables tables(c);
  const int64_t size = int64_t{c.num_kv_heads} * c.head_dim;
  const int64_t key_column = 3, stride = key_column + 2 * size + 1;
  const auto rows_before = Input<float>::Normal(kRows * stride, 1);
  const auto tokens_before = Input<float>::Normal(kTaken * 4 * size, 2);
  Output<float> rows(rows_before, 0), tokens(tokens_before, 0);
  std::vector<KvRow> list;
  for (int32_t i = 0; i < kTaken; ++i) {
    list.push_back({kPlaces[i][0], kPlaces[i][1], kPlaces[i][2], tokens.data() + i * 4 * size});
  }
  const Shared<KvRow> on_device(list);
  (adds ? AddKvRows : TakeKvRows)({.rows = on_device.data(),
                                   .num_rows = kTaken,
                                   .token_offset = 2 * size,
                                   .num_kv_heads = c.num_kv_heads,
                                   .head_dim = c.head_dim,
                                   .rotary_dim = c.rotary_dim,
                                   .interleaved = c.interleaved,
                                   .cos = tables.cos.data(),
                                   .sin = tables.sin.data(),
                                   .keys_values = rows.data(),
                                   .stride = stride,
                                   .key_column = key_column},
                                  stream);
  Synchronize(stream);
  EXPECT_TRUE(rows.GuardsIntact() && tokens.GuardsIntact());
  std::vector<double> expected_rows, expected_tokens;
  for (int64_t i = 0; i < kRows * stride; ++i) expected_rows.push_back(rows_before.At(i));
  for (int64_t i = 0; i < kTaken * 4 * size; ++i) expected_tokens.push_back(tokens_before.At(i));
  for (int32_t i = 0; i < kTaken; ++i) {
    const int64_t row = kPlaces[i][0] * stride + key_column;
    const int64_t token = i * 4 * size + 2 * size;
    const int32_t turn = adds ? -kPlaces[i][2] : kPlaces[i][2] - kPlaces[i][1];
    for (int64_t head = 0; head < 2 * size; head += c.head_dim) {
      std::vector<double> x;
      for (int64_t j = head; j < head + c.head_dim; ++j) {
        x.push_back(adds ? tokens_before.At(token + j) : rows_before.At(row + j));
      }
      if (head < size) x = Turned(std::move(x), turn, c);
      for (int64_t j = 0; j < c.head_dim; ++j) {
        const double value = x[static_cast<size_t>(j)];
        if (adds) expected_rows[static_cast<size_t>(row + head + j)] += value;
        if (!adds) expected_tokens[static_cast<size_t>(token + head + j)] = value;
      }
    }
  }
  for (int64_t i = 0; i < rows.size(); ++i) {
    ASSERT_NEAR(rows.At(i), expected_rows[static_cast<size_t>(i)], 2e-6) << "element " << i;
  }
  for (int64_t i = 0; i < tokens.size(); ++i) {
    ASSERT_NEAR(tokens.At(i), expected_tokens[static_cast<size_t>(i)], 2e-6) << "element " << i;
  }
}

TEST(KvRowsTest, TokensAreRowsTurnedToTheirPlaces) {
  for (const Case& c : kCases)
    ForEachDevice([&](Stream& stream) { ExpectRight(c, false, stream); });
}

TEST(KvRowsTest, GradientsGoBackToKeysBeforeTheirTurn) {
  for (const Case& c : kCases) ForEachDevice([&](Stream& stream) { ExpectRight(c, true, stream); });
}

TEST(KvRowsTest, NoRowsTouchNothing) {
  ForEachDevice([&](Stream& stream) {
    TakeKvRows({}, stream);
    AddKvRows({}, stream);
  });
}

}  // namespace kv_rows_test
}  // namespace graft
