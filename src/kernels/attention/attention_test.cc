#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/common/op_test_util.h"
#include "tensor/cuda_graph.h"

namespace graft {
namespace attention_test {

using testing::BitEqual;
using testing::ForEachDevice;
using testing::ForFirstGpu;
using testing::Input;
using testing::IsClose;
using testing::Output;
using testing::Reference;
using testing::Shared;

struct Sequence {
  int32_t kv_tokens = 0;
  int32_t num_rows = 0;
};

struct Case {
  std::string name;
  int32_t num_heads = 1;
  int32_t num_kv_heads = 1;
  int32_t head_dim = 16;
  int32_t page_tokens = 16;
  int32_t window = 0;
  std::vector<Sequence> sequences;
  float score_cap = 0.0f;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// Keys and values of each sequence in pages of a pool in which everything else is NaN, so that
// whatever the op reads without need shows. Pages are dealt out in a scrambled order; those wholly
// outside of the window have the id -1.
template <typename T>
class Problem {
 public:
  // misalign: elements from the pool's start to a border of 64 bytes. Tensor cores need it to be 0.
  // q_vectors: whether rows of q lie on borders of 16 bytes, if heads do.
  explicit Problem(const Case& c, int64_t misalign = 1, bool q_vectors = false)
      : case_(c),
        layout_{.num_layers = 2,
                .num_kv_heads = c.num_kv_heads,
                .head_dim = c.head_dim,
                .page_tokens = c.page_tokens,
                .dtype = DTypeOf<T>()},
        pool_(NumPages(c) * layout_.PageElements(), misalign) {
    const T nan = FromFloat<T>(std::numeric_limits<float>::quiet_NaN());
    std::fill_n(pool_.data(), pool_.size(), nan);
    int32_t num_rows = 0;
    std::vector<int32_t> row_begin, page_begin, kv_tokens, pages;
    for (const Sequence& s : c.sequences) {
      row_begin.push_back(num_rows);
      page_begin.push_back(static_cast<int32_t>(pages.size()));
      kv_tokens.push_back(s.kv_tokens);
      num_rows += s.num_rows;
      DealPages(s, pages);
    }
    row_begin.push_back(num_rows);
    page_begin.push_back(static_cast<int32_t>(pages.size()));
    pages_ = Shared<int32_t>(pages);
    row_begin_ = Shared<int32_t>(row_begin);
    page_begin_ = Shared<int32_t>(page_begin);
    kv_tokens_ = Shared<int32_t>(kv_tokens);
    splits_ = Shared<AttentionSplit>(std::vector<AttentionSplit>(
        static_cast<size_t>(AttentionSplitsMax(num_sequences(), KvTokensMax()))));
    ListSplits();
    for (size_t i = 0; i < c.sequences.size(); ++i) FillPages(i);
    scratch_ = PinnedBuffer(AttentionScratchBytes(layout_, c.num_heads, num_sequences(),
                                                  KvTokensMax(), {DeviceKind::kCuda, 0}));
    q_stride_ = int64_t{c.num_heads} * c.head_dim + (q_vectors ? 4 : 5);
    q_ = Input<float>::Normal(num_rows * q_stride_, 7, q_vectors ? 0 : 3, 1.5);
  }

  int64_t num_rows() const {
    int64_t num_rows = 0;
    for (const Sequence& s : case_.sequences) num_rows += s.num_rows;
    return num_rows;
  }
  int64_t row_elements() const { return int64_t{case_.num_heads} * case_.head_dim; }
  float* q_row(int64_t row) { return q_.data() + row * q_stride_; }
  int64_t q_stride() const { return q_stride_; }
  const Sequence& sequence(size_t idx) const { return case_.sequences[idx]; }

  // Makes the rows of the last `num_given` sequences given ones. A GPU that tells them apart has
  // another kernel for them.
  void GiveRows(int32_t num_given, const Device& device) {
    num_given_ = AttentionTellsGivenRows(layout_, device) ? num_given : 0;
    ListSplits();
  }
  void GiveAllRows(const Device& device) { GiveRows(num_sequences(), device); }

  // Leaves only rows [begin, end) of sequence 0, which was built with all of its rows. The other
  // sequences move up behind them, to other queries.
  void SelectRows(int32_t begin, int32_t end) {
    kv_tokens_[0] = end;
    row_begin_[0] = begin;
    for (size_t s = 1; s < row_begin_.size(); ++s) {
      row_begin_[s] = end;
      if (s < case_.sequences.size()) end += case_.sequences[s].num_rows;
    }
    ListSplits();
  }

  int32_t num_sequences() const { return static_cast<int32_t>(case_.sequences.size()); }
  int64_t rows_in_use() const { return row_begin_[case_.sequences.size()]; }
  // Sequence 0 gets `end` positions, with rows from `begin` on; rows are numbered from 0.
  void SelectLength(int32_t begin, int32_t end) {
    SelectRows(0, end - begin);
    kv_tokens_[0] = end;
    ListSplits();
  }

  // Takes the bounds of all the case's rows if `bounds_of_case`, else of what the arrays say now.
  void Run(void* out, DType out_dtype, Stream& stream, bool bounds_of_case = false) const {
    int32_t sequence_rows_max = 0;
    for (int32_t s = 0; s < num_sequences() - num_given_; ++s) {
      const int32_t now = row_begin_[s + 1] - row_begin_[s];
      sequence_rows_max =
          std::max(sequence_rows_max, bounds_of_case ? case_.sequences[s].num_rows : now);
    }
    Attention({.layout = layout_,
               .layer = 1,
               .pool = pool_.data(),
               .pages = pages_.data(),
               .page_begin = page_begin_.data(),
               .row_begin = row_begin_.data(),
               .kv_tokens = kv_tokens_.data(),
               .num_sequences = num_sequences(),
               .num_heads = case_.num_heads,
               .q = q_.data(),
               .q_stride = q_stride_,
               .out = out,
               .out_dtype = out_dtype,
               .scale = Scale(),
               .score_cap = case_.score_cap,
               .window = case_.window,
               .num_given = stream.device.is_cpu() ? 0 : num_given_,
               .splits = splits_.data(),
               .num_splits = num_splits_.data(),
               .rows_max = static_cast<int32_t>(num_rows()),
               .sequence_rows_max = sequence_rows_max,
               .kv_tokens_max = KvTokensMax(),
               .scratch = scratch_.as<float>()},
              stream);
  }

  // Element d of (row of the sequence, head), with its softmax over the visible positions.
  std::vector<Reference> Expected(size_t sequence, int32_t row, int32_t head) const {
    const Sequence& s = case_.sequences[sequence];
    const int32_t position = s.kv_tokens - s.num_rows + row;
    const int32_t begin = case_.window > 0 ? std::max(0, position - case_.window + 1) : 0;
    const int32_t kv_head = head / (case_.num_heads / case_.num_kv_heads);
    const float* q = q_.data() + (row_begin_[sequence] + row) * q_stride_ + head * case_.head_dim;
    std::vector<double> weights;
    double maximum = -std::numeric_limits<double>::infinity();
    for (int32_t p = begin; p <= position; ++p) {
      double score = 0.0;
      for (int32_t d = 0; d < case_.head_dim; ++d) {
        score += double{q[d]} * ToFloat(pool_[KeyOffset(sequence, p, kv_head) + d]);
      }
      const double cap = case_.score_cap;
      score *= Scale();
      weights.push_back(cap > 0.0 ? cap * std::tanh(score / cap) : score);
      maximum = std::max(maximum, weights.back());
    }
    double sum = 0.0;
    for (double& weight : weights) sum += weight = std::exp(weight - maximum);
    std::vector<Reference> expected(case_.head_dim);
    for (int32_t p = begin; p <= position; ++p) {
      const int64_t values = KeyOffset(sequence, p, kv_head) + layout_.KeyElements();
      for (int32_t d = 0; d < case_.head_dim; ++d) {
        expected[d].Add(weights[p - begin] / sum * ToFloat(pool_[values + d]));
      }
    }
    return expected;
  }

 private:
  static int64_t NumPages(const Case& c) {
    int64_t num_pages = 0;
    for (const Sequence& s : c.sequences) {
      num_pages += (s.kv_tokens + c.page_tokens - 1) / c.page_tokens;
    }
    return num_pages;
  }
  int32_t KvTokensMax() const {
    int32_t kv_tokens_max = 0;
    for (const Sequence& s : case_.sequences) kv_tokens_max = std::max(kv_tokens_max, s.kv_tokens);
    return kv_tokens_max;
  }
  void ListSplits() {
    const auto num_drawn = static_cast<size_t>(num_sequences() - num_given_);
    const auto first = [](const Shared<int32_t>& values, size_t count) {
      return std::span(values.data(), values.size()).first(count);
    };
    std::vector<AttentionSplit> splits;
    ListAttentionSplits(first(row_begin_, num_drawn + 1), first(page_begin_, num_drawn + 1),
                        first(kv_tokens_, num_drawn), case_.window, splits);
    std::ranges::copy(splits, splits_.data());
    num_splits_[0] = static_cast<int32_t>(splits.size());
  }
  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(case_.head_dim)); }
  int64_t KeyOffset(size_t sequence, int32_t position, int32_t kv_head) const {
    const int32_t page = pages_[page_begin_[sequence] + position / case_.page_tokens];
    return layout_.KeyOffset(page, 1, kv_head, position % case_.page_tokens);
  }

  // The first position that any row of the sequence sees.
  int32_t FirstVisible(const Sequence& s) const {
    const int32_t first_position = s.kv_tokens - s.num_rows;
    return case_.window > 0 ? std::max(0, first_position - case_.window + 1) : 0;
  }

  void DealPages(const Sequence& s, std::vector<int32_t>& pages) const {
    const int64_t total = NumPages(case_);
    const int32_t num_pages = (s.kv_tokens + case_.page_tokens - 1) / case_.page_tokens;
    for (int32_t i = 0; i < num_pages; ++i) {
      const bool outside = (i + 1) * case_.page_tokens <= FirstVisible(s);
      const auto dealt = static_cast<int64_t>(pages.size());
      pages.push_back(outside ? -1 : static_cast<int32_t>(total - 1 - dealt));
    }
  }

  void FillPages(size_t sequence) {
    const Sequence& s = case_.sequences[sequence];
    Random random(100 + sequence);
    for (int32_t p = 0; p < s.kv_tokens; ++p) {
      for (int32_t h = 0; h < case_.num_kv_heads; ++h) {
        for (int32_t d = 0; d < case_.head_dim; ++d) {
          const T key = FromFloat<T>(static_cast<float>(random.Normal()));
          const T value = FromFloat<T>(static_cast<float>(random.Normal()));
          if (p < FirstVisible(s)) continue;
          pool_[KeyOffset(sequence, p, h) + d] = key;
          pool_[KeyOffset(sequence, p, h) + layout_.KeyElements() + d] = value;
        }
      }
    }
  }

  const Case case_;
  const KvLayout layout_;
  Input<T> pool_;
  Shared<int32_t> pages_{}, page_begin_{}, row_begin_{}, kv_tokens_{};
  Shared<AttentionSplit> splits_{};
  Shared<int32_t> num_splits_{0};
  PinnedBuffer scratch_;
  Input<float> q_{0};
  int64_t q_stride_ = 0;
  int32_t num_given_ = 0;
};

std::vector<Case> Cases() {
  return {
      {"one token", 1, 1, 16, 16, 0, {{1, 1}}},
      {"decode", 4, 2, 64, 16, 0, {{1, 1}, {63, 1}, {64, 1}, {65, 1}, {200, 1}}},
      {"prefill", 4, 2, 64, 16, 0, {{130, 130}}},
      {"mixed", 8, 2, 32, 8, 0, {{90, 1}, {70, 70}, {150, 20}, {0, 0}, {40, 1}}},
      {"no grouping", 3, 3, 24, 5, 0, {{77, 77}, {13, 2}}},
      {"all heads share", 8, 1, 40, 3, 0, {{50, 9}}},
      {"more heads than a tile", 130, 1, 16, 16, 0, {{20, 3}, {70, 1}}},
      {"odd head_dim", 2, 1, 17, 16, 0, {{70, 3}, {5, 5}}},
      {"head_dim 80", 4, 4, 80, 1, 0, {{70, 6}}},
      {"head_dim 128", 4, 1, 128, 64, 0, {{129, 2}, {66, 66}}},
      {"head_dim 256", 2, 1, 256, 32, 0, {{100, 1}, {30, 30}}},
      {"head_dim 2", 2, 2, 2, 7, 0, {{66, 40}}},
      {"window 1", 2, 1, 16, 4, 1, {{70, 70}, {70, 1}}},
      {"window 5", 2, 1, 32, 4, 5, {{140, 80}, {129, 1}, {3, 3}}},
      {"window 64", 4, 2, 16, 16, 64, {{300, 1}, {200, 200}, {129, 65}}},
      {"long", 4, 2, 64, 16, 0, {{1100, 1}, {0, 0}, {1030, 70}, {513, 1}, {512, 1}, {600, 600}}},
      {"long, window 600", 2, 1, 128, 16, 600, {{1300, 1}, {1290, 9}}},
      {"head_dim 96", 4, 2, 96, 16, 0, {{1100, 1}, {600, 70}, {130, 130}, {1, 1}}},
      {"head_dim 96, window", 6, 2, 96, 8, 50, {{600, 1}, {90, 70}}},
      {"head_dim 256, long", 4, 2, 256, 16, 0, {{1100, 1}, {540, 40}}},
      {"cap", 4, 2, 64, 16, 0, {{1100, 1}, {70, 70}, {600, 20}}, 1.5f},
      {"cap, one key head", 20, 1, 40, 5, 0, {{66, 1}, {80, 30}}, 2.0f},
      {"cap, head_dim 128, window", 4, 2, 128, 16, 40, {{130, 1}, {200, 90}}, 50.0f},
      {"cap, head_dim 256", 4, 2, 256, 32, 0, {{600, 1}, {100, 66}}, 3.0f},
      {"cap, head_dim 256, window", 2, 1, 256, 16, 70, {{300, 1}, {130, 130}}, 30.0f},
      {"cap, odd head_dim", 2, 1, 17, 16, 0, {{70, 3}, {5, 1}}, 1.0f},
      {"window wider than all", 2, 1, 16, 16, std::numeric_limits<int32_t>::max(), {{99, 50}}},
  };
}

template <typename T, typename Out>
void ExpectClose(const Case& c, double tolerance, double gpu_tolerance) {
  SCOPED_TRACE(c.name);
  const Problem<T> problem(c);
  const Problem<T> aligned(c, 0);
  std::vector<std::vector<Reference>> expected;
  for (size_t s = 0; s < c.sequences.size(); ++s) {
    for (int32_t row = 0; row < c.sequences[s].num_rows; ++row) {
      for (int32_t head = 0; head < c.num_heads; ++head) {
        expected.push_back(problem.Expected(s, row, head));
      }
    }
  }
  const auto expect = [&](const Problem<T>& run, int64_t misalign, Stream& stream) {
    Output<Out> out(run.num_rows() * run.row_elements(), misalign);
    run.Run(out.data(), DTypeOf<Out>(), stream);
    Synchronize(stream);
    EXPECT_TRUE(out.GuardsIntact());
    const double bound = stream.device.is_cpu() ? tolerance : gpu_tolerance;
    for (size_t i = 0; i < expected.size(); ++i) {
      for (int32_t d = 0; d < c.head_dim; ++d) {
        ASSERT_TRUE(
            IsClose(out.At(static_cast<int64_t>(i) * c.head_dim + d), expected[i][d], bound))
            << "query " << i << ", dimension " << d;
      }
    }
  };
  ForEachDevice([&](Stream& stream) { expect(problem, 3, stream); });
  ForFirstGpu([&](Stream& stream) {
    expect(aligned, 0, stream);
    expect(aligned, 1, stream);
  });
}

// Scores of a magnitude of ten keep six digits.
constexpr double kF32Close = 1e-5;
// q and p are rounded to bf16 where the machine multiplies bf16 pairs.
constexpr double kBF16Close = 1.0 / 64;
// A GPU rounds them to fp16.
constexpr double kGpuF16Close = 1.0 / 256;

TEST(AttentionTest, MatchesReferenceF32) {
  for (const Case& c : Cases()) ExpectClose<float, float>(c, kF32Close, kF32Close);
}

TEST(AttentionTest, MatchesReferenceBF16) {
  for (const Case& c : Cases()) ExpectClose<Bfloat16, Bfloat16>(c, kBF16Close, kBF16Close);
}

TEST(AttentionTest, MatchesReferenceF16) {
  for (const Case& c : Cases()) ExpectClose<Float16, float>(c, kF32Close, kGpuF16Close);
  ExpectClose<Float16, Float16>(Cases()[1], 1e-3, kGpuF16Close);
}

// More of them than a warp has lanes, some without rows.
std::vector<Sequence> ManySequences() {
  std::vector<Sequence> sequences;
  for (int32_t i = 0; i < 75; ++i) {
    const int32_t num_rows = i % 5 == 3 ? 0 : 1 + i * 7 % 19;
    sequences.push_back({num_rows + i * 5 % 31, num_rows});
  }
  sequences.back() = {400, 260};
  return sequences;
}

// Given rows, which a GPU may compute by another kernel. Each card has one for some of these heads;
// the others take that of drawn rows.
std::vector<Case> GivenCases() {
  return {
      {"one token", 1, 1, 64, 16, 0, {{1, 1}}},
      {"prompt", 4, 2, 128, 16, 0, {{130, 130}}},
      {"several", 8, 2, 128, 8, 0, {{90, 1}, {70, 70}, {150, 20}, {0, 0}, {40, 1}, {900, 300}}},
      {"groups of 5", 5, 1, 64, 64, 0, {{300, 300}, {77, 2}}},
      {"long pages", 2, 1, 64, 256, 0, {{700, 200}}},
      {"head_dim 80", 4, 4, 80, 32, 0, {{200, 150}}},
      {"head_dim 96", 4, 2, 96, 16, 0, {{600, 70}, {130, 130}, {1, 1}}},
      {"head_dim 256", 2, 1, 256, 32, 0, {{100, 1}, {530, 300}}},
      {"window 1", 2, 1, 64, 8, 1, {{300, 300}, {70, 1}}},
      {"window 70", 4, 2, 128, 16, 70, {{600, 400}, {200, 200}, {129, 1}}},
      {"head_dim 96, window", 6, 2, 96, 8, 50, {{600, 1}, {190, 170}}},
      {"cap", 4, 2, 64, 16, 0, {{70, 70}, {600, 20}}, 1.5f},
      {"cap, window", 4, 2, 128, 16, 40, {{130, 1}, {200, 90}}, 50.0f},
      {"cap, head_dim 256, window", 2, 1, 256, 16, 70, {{300, 1}, {130, 130}}, 30.0f},
      {"head_dim 8", 2, 1, 8, 5, 0, {{150, 150}, {1, 1}}},
      {"head_dim 40, window", 6, 2, 40, 7, 33, {{150, 140}, {64, 64}}},
      {"head_dim 88, pages of 24", 4, 2, 88, 24, 0, {{200, 131}}},
      {"head_dim 104, groups of 3", 6, 2, 104, 16, 0, {{300, 200}, {65, 1}}},
      {"head_dim 120, cap", 2, 1, 120, 8, 0, {{140, 129}}, 2.0f},
      {"head_dim 128, pages of 4", 4, 4, 128, 4, 0, {{200, 200}}},
      {"head_dim 136", 2, 1, 136, 16, 0, {{100, 100}}},
      {"head_dim 200, cap", 4, 2, 200, 3, 0, {{130, 70}}, 1.5f},
      {"head_dim 248, window", 2, 1, 248, 16, 64, {{200, 130}}},
      {"groups of 130", 130, 1, 64, 16, 0, {{90, 3}}},
      {"many", 4, 2, 64, 16, 0, ManySequences()},
      {"many, head_dim 128, window", 4, 1, 128, 16, 20, ManySequences()},
      {"many, head_dim 256", 1, 1, 256, 16, 0, ManySequences()},
  };
}

template <typename T, typename Out>
void ExpectGivenClose(const Case& c, double tolerance) {
  SCOPED_TRACE(c.name);
  ForFirstGpu([&](Stream& stream) {
    for (const int64_t misalign : {0, 1}) {
      Problem<T> problem(c, 0, /*q_vectors=*/misalign == 0);
      problem.GiveAllRows(stream.device);
      Output<Out> out(problem.num_rows() * problem.row_elements(), misalign);
      problem.Run(out.data(), DTypeOf<Out>(), stream);
      Synchronize(stream);
      EXPECT_TRUE(out.GuardsIntact());
      int64_t row = 0;
      for (size_t s = 0; s < c.sequences.size(); ++s) {
        for (int32_t r = 0; r < c.sequences[s].num_rows; ++r, ++row) {
          for (int32_t head = 0; head < c.num_heads; ++head) {
            const std::vector<Reference> expected = problem.Expected(s, r, head);
            for (int32_t d = 0; d < c.head_dim; ++d) {
              const int64_t i = (row * c.num_heads + head) * c.head_dim + d;
              ASSERT_TRUE(IsClose(out.At(i), expected[d], tolerance))
                  << "sequence " << s << ", row " << r << ", head " << head << ", " << d;
            }
          }
        }
      }
    }
  });
}

TEST(AttentionTest, GpuGivenRowsMatchReference) {
  for (const Case& c : GivenCases()) {
    ExpectGivenClose<Bfloat16, Bfloat16>(c, kBF16Close);
    ExpectGivenClose<Bfloat16, float>(c, kBF16Close);
    ExpectGivenClose<Float16, Float16>(c, kGpuF16Close);
  }
}

// Runs twice, because the first launch must leave the scratch as it found it.
std::vector<Bfloat16> OutWithGiven(const Case& c, int32_t num_given, Stream& stream) {
  Problem<Bfloat16> problem(c, 0);
  problem.GiveRows(num_given, stream.device);
  const int64_t size = problem.num_rows() * problem.row_elements();
  std::vector<Bfloat16> last;
  for (int time = 0; time < 2; ++time) {
    Output<Bfloat16> out(size);
    problem.Run(out.data(), DType::kBF16, stream);
    Synchronize(stream);
    EXPECT_TRUE(out.GuardsIntact());
    if (time > 0) {
      EXPECT_TRUE(BitEqual(out.data(), last.data(), size));
    }
    last.assign(out.data(), out.data() + size);
  }
  return last;
}

// Rows of either kind have the bits that they have among their own kind.
TEST(AttentionTest, GpuGivenAndDrawnRowsInOneCall) {
  const std::vector<Sequence> sequences = {{900, 1}, {130, 40}, {1, 1},     {0, 0},
                                           {60, 1},  {5, 5},    {700, 300}, {1200, 1}};
  ForFirstGpu([&](Stream& stream) {
    for (const Case& c :
         {Case{"full", 8, 2, 128, 16, 0, sequences}, Case{"window", 4, 1, 64, 8, 70, sequences},
          Case{"cap, head_dim 256", 4, 2, 256, 32, 0, sequences, 2.0f}}) {
      SCOPED_TRACE(c.name);
      const auto num_sequences = static_cast<int32_t>(sequences.size());
      const std::vector<Bfloat16> drawn = OutWithGiven(c, 0, stream);
      const std::vector<Bfloat16> given = OutWithGiven(c, num_sequences, stream);
      for (const int32_t num_given : {1, 2, 4, num_sequences - 1}) {
        int64_t num_drawn_rows = 0;
        for (int32_t s = 0; s < num_sequences - num_given; ++s) {
          num_drawn_rows += sequences[s].num_rows;
        }
        std::vector<Bfloat16> expected = given;
        std::copy_n(drawn.begin(), num_drawn_rows * c.num_heads * c.head_dim, expected.begin());
        const std::vector<Bfloat16> out = OutWithGiven(c, num_given, stream);
        EXPECT_TRUE(BitEqual(out.data(), expected.data(), static_cast<int64_t>(out.size())))
            << num_given;
      }
    }
  });
}

TEST(AttentionTest, ListsSplitsOfSequencesOfOneRow) {
  const std::vector<int32_t> row_begin = {0, 1, 1, 4, 5, 6};
  const std::vector<int32_t> page_begin = {0, 70, 70, 80, 113, 120};
  const std::vector<int32_t> kv_tokens = {1100, 900, 30, 513, 100};
  const auto lists = [&](int32_t window) {
    std::vector<AttentionSplit> splits(3);
    ListAttentionSplits(row_begin, page_begin, kv_tokens, window, splits);
    std::vector<std::array<int32_t, 8>> lists;
    for (const AttentionSplit& s : splits) {
      lists.push_back({s.sequence, s.row, s.position, s.page_begin, s.index, s.num_splits,
                       s.tile_begin, s.tile_end});
    }
    return lists;
  };
  using Lists = std::vector<std::array<int32_t, 8>>;
  EXPECT_EQ(lists(0), (Lists{{0, 0, 1099, 0, 0, 3, 0, 8},
                             {0, 0, 1099, 0, 1, 3, 8, 16},
                             {3, 4, 512, 80, 0, 2, 0, 8},
                             {0, 0, 1099, 0, 2, 3, 16, 18},
                             {4, 5, 99, 113, 0, 1, 0, 2},
                             {3, 4, 512, 80, 1, 2, 8, 9}}));
  // Positions 1000 to 1099, 413 to 512 and all 100.
  EXPECT_EQ(lists(100), (Lists{{0, 0, 1099, 0, 2, 2, 16, 18},
                               {3, 4, 512, 80, 0, 2, 6, 8},
                               {4, 5, 99, 113, 0, 1, 0, 2},
                               {0, 0, 1099, 0, 1, 2, 15, 16},
                               {3, 4, 512, 80, 1, 2, 8, 9}}));
  EXPECT_EQ(AttentionSplitsMax(5, 1100), 15);
}

TEST(AttentionTest, NothingToDo) {
  ForEachDevice([](Stream& stream) {
    Output<float> out(16);
    AttentionArgs args{.layout = {.num_layers = 1,
                                  .num_kv_heads = 1,
                                  .head_dim = 16,
                                  .page_tokens = 16,
                                  .dtype = DType::kF32},
                       .num_heads = 1,
                       .q_stride = 16,
                       .out = out.data()};
    Attention(args, stream);
    const Shared<int32_t> begins = {0, 0, 0};
    const Shared<int32_t> kv_tokens = {0, 0};
    args.page_begin = args.row_begin = begins.data();
    args.kv_tokens = kv_tokens.data();
    args.num_sequences = 2;
    Attention(args, stream);
    Synchronize(stream);
    for (int64_t i = 0; i < out.size(); ++i) EXPECT_TRUE(out.IsUntouched(i));
  });
}

// The rows of sequence 0, its prompt prefilled in chunks beside the other sequences.
template <typename T>
std::vector<T> ChunkedPrefill(Problem<T>& problem, int32_t chunk, Stream& stream) {
  const int32_t num_tokens = problem.sequence(0).kv_tokens;
  Output<T> out(problem.num_rows() * problem.row_elements());
  for (int32_t begin = 0; begin < num_tokens; begin += chunk) {
    problem.SelectRows(begin, std::min(num_tokens, begin + chunk));
    problem.Run(out.data(), DTypeOf<T>(), stream);
    Synchronize(stream);
  }
  return std::vector<T>(out.data(), out.data() + num_tokens * problem.row_elements());
}

template <typename T>
void ExpectSameBitsInAnyChunk(const Case& alone_case, const Case& mixed_case,
                              const std::vector<int32_t>& chunks, int64_t misalign, Stream& stream,
                              bool given = false) {
  SCOPED_TRACE(alone_case.name);
  Problem<T> alone(alone_case, misalign);
  Problem<T> mixed(mixed_case, misalign);
  std::copy_n(alone.q_row(0), alone.num_rows() * alone.q_stride(), mixed.q_row(0));
  if (given) {
    alone.GiveAllRows(stream.device);
    mixed.GiveAllRows(stream.device);
  }
  const std::vector<T> expected = ChunkedPrefill(alone, 1 << 20, stream);
  for (const int32_t chunk : chunks) {
    SCOPED_TRACE(chunk);
    const std::vector<T> actual = ChunkedPrefill(chunk % 2 == 1 ? mixed : alone, chunk, stream);
    ASSERT_EQ(actual.size(), expected.size());
    EXPECT_TRUE(BitEqual(actual.data(), expected.data(), static_cast<int64_t>(expected.size())));
  }
}

TEST(AttentionTest, RowsDoNotDependOnChunksNeighboursOrThreads) {
  const std::vector<Sequence> neighbours = {{150, 1}, {40, 40}, {66, 3}};
  for (Case alone : {Case{"full", 4, 2, 32, 16, 0, {{150, 150}}},
                     Case{"cap", 4, 2, 96, 16, 0, {{150, 150}}, 1.5f},
                     Case{"window", 4, 1, 40, 4, 70, {{150, 150}}}}) {
    Case mixed = alone;
    mixed.sequences.insert(mixed.sequences.end(), neighbours.begin(), neighbours.end());
    const std::vector<int32_t> chunks = {1, 3, 7, 16, 64, 100};
    ForEachDevice([&](Stream& stream) {
      if (alone.window == 0) ExpectSameBitsInAnyChunk<float>(alone, mixed, chunks, 1, stream);
      ExpectSameBitsInAnyChunk<Bfloat16>(alone, mixed, chunks, 1, stream);
    });
  }
}

// On tensor cores decode and prefill are different kernels. The prompts have several splits.
class AttentionAcrossSplitsTest : public ::testing::TestWithParam<Case> {};

TEST_P(AttentionAcrossSplitsTest, GpuRowsDoNotDependOnChunks) {
  const std::vector<Sequence> neighbours = {{1500, 1}, {40, 40}, {900, 70}, {0, 0}};
  const Case& alone = GetParam();
  Case mixed = alone;
  mixed.sequences.insert(mixed.sequences.end(), neighbours.begin(), neighbours.end());
  Case crowd = alone;  // decoded by warps, where few sequences are decoded by blocks
  crowd.sequences.insert(crowd.sequences.end(), 150, {5, 1});
  ForFirstGpu([&](Stream& stream) {
    ExpectSameBitsInAnyChunk<Bfloat16>(alone, crowd, {1}, 0, stream);
    ExpectSameBitsInAnyChunk<Bfloat16>(alone, mixed, {1, 2, 64, 513, 1000}, 0, stream);
    ExpectSameBitsInAnyChunk<Float16>(alone, mixed, {7, 512}, 0, stream);
    ExpectSameBitsInAnyChunk<Bfloat16>(alone, mixed, {1, 2, 64, 513, 1000}, 0, stream, true);
    ExpectSameBitsInAnyChunk<Float16>(alone, mixed, {7, 512}, 0, stream, true);
  });
}

// One test per case: each launches thousands of kernels, and they may run side by side.
INSTANTIATE_TEST_SUITE_P(
    Cases, AttentionAcrossSplitsTest,
    ::testing::Values(Case{"no grouping", 2, 2, 128, 16, 0, {{1100, 1100}}},
                      Case{"blocks of several warps", 32, 32, 128, 16, 0, {{600, 600}}},
                      Case{"groups of 4", 8, 2, 128, 16, 0, {{1100, 1100}}},
                      Case{"groups of 16", 32, 2, 64, 16, 0, {{1050, 1050}}},
                      Case{"groups of 20", 20, 1, 40, 5, 0, {{600, 600}}},
                      Case{"head_dim 256", 4, 2, 256, 32, 0, {{1050, 1050}}},
                      Case{"head_dim 96", 4, 4, 96, 16, 0, {{1100, 1100}}},
                      Case{"cap", 8, 2, 128, 16, 0, {{1100, 1100}}, 2.0f},
                      Case{"cap, groups of 20", 20, 1, 40, 5, 0, {{600, 600}}, 2.0f},
                      Case{"cap, head_dim 256, window", 4, 2, 256, 16, 600, {{1100, 1100}}, 2.0f},
                      Case{"head_dim 120", 4, 2, 120, 16, 0, {{600, 600}}},
                      Case{"head_dim 192", 2, 2, 192, 16, 0, {{600, 600}}},
                      Case{"window", 4, 1, 128, 16, 700, {{1300, 1300}}}));

// More than one drawn row a sequence.
TEST(AttentionTest, GpuFindsRowsAmongManySequences) {
  ForFirstGpu([&](Stream& /*stream*/) {
    for (const Case& c : {Case{"heads of 64", 4, 2, 64, 16, 0, ManySequences()},
                          Case{"heads of 256", 1, 1, 256, 16, 30, ManySequences()}}) {
      ExpectClose<Bfloat16, float>(c, kBF16Close, kBF16Close);
    }
  });
}

// Warps draw what is left after their first: of one launch and of the next.
TEST(AttentionTest, GpuDecodesMoreThanRunsAtOnce) {
  Case full{"full", 8, 8, 16, 16, 0, {}};
  Random random(3);
  for (int i = 0; i < 300; ++i) {
    const auto kv_tokens = static_cast<int32_t>(1 + random.Below(i % 20 == 0 ? 1300 : 150));
    full.sequences.push_back({kv_tokens, i % 7 == 0 ? 0 : 1});
  }
  Case window = full;
  window.name = "window";
  window.window = 70;
  Case mixed = full;
  mixed.name = "beside a prompt";
  mixed.sequences[5] = {90, 60};
  ForFirstGpu([&](Stream& /*stream*/) {
    for (const Case& c : {full, window, mixed}) {
      ExpectClose<Bfloat16, float>(c, kBF16Close, kBF16Close);
    }
  });
}

// A graph recorded with the bounds of the longest batch gives shorter ones their bits.
TEST(AttentionTest, GpuGraphsReplayOtherLengths) {
  ForFirstGpu([&](Stream& stream) {
    for (const Case& c : {Case{"decode", 8, 2, 128, 16, 0, {{1500, 1}, {700, 1}, {20, 1}}},
                          Case{"mixed", 8, 2, 128, 16, 0, {{1500, 900}, {700, 1}, {20, 3}}},
                          Case{"one", 4, 4, 64, 16, 0, {{1500, 900}}}}) {
      SCOPED_TRACE(c.name);
      Problem<Bfloat16> problem(c, 0);
      const int64_t size = problem.num_rows() * problem.row_elements();
      Output<Bfloat16> replayed(size);
      CapturedGraph graph(stream, [&] {
        problem.Run(replayed.data(), DType::kBF16, stream, /*bounds_of_case=*/true);
      });
      for (const int32_t end : {900, 1, 130, 513}) {
        const int32_t begin = c.sequences[0].num_rows == 1 ? end - 1 : 0;
        problem.SelectLength(begin, end);
        graph.Launch(stream);
        Output<Bfloat16> expected(size);
        problem.Run(expected.data(), DType::kBF16, stream);
        Synchronize(stream);
        EXPECT_TRUE(expected.GuardsIntact() && replayed.GuardsIntact());
        const int64_t used = problem.rows_in_use() * problem.row_elements();
        EXPECT_TRUE(BitEqual(replayed.data(), expected.data(), used)) << end;
      }
    }
  });
}

TEST(AttentionTest, RowsDoNotDependOnPageSizeNorThreads) {
  for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (isa > BestCpuIsa()) continue;
    const ScopedCpuIsa scope(isa);
    std::vector<float> expected;
    for (const int32_t page_tokens : {1, 7, 16, 64}) {
      for (const int num_threads : {1, 3}) {
        const Problem<float> problem(Case{"", 4, 2, 32, page_tokens, 0, {{150, 90}, {129, 1}}});
        ThreadPool threads(num_threads);
        Stream stream{.device = {}, .cpu_threads = &threads};
        std::vector<float> out(problem.num_rows() * problem.row_elements());
        problem.Run(out.data(), DType::kF32, stream);
        if (expected.empty()) expected = out;
        EXPECT_TRUE(BitEqual(out.data(), expected.data(), static_cast<int64_t>(out.size())));
      }
    }
  }
}

// With large scores the softmax is one position's, and nothing overflows on the way.
void ExpectHugeScoresStayFinite(float score_cap) {
  Problem<float> problem(Case{"", 1, 1, 16, 16, 0, {{130, 3}}, score_cap});
  for (int64_t row = 0; row < 3; ++row) {
    for (int32_t d = 0; d < 16; ++d) problem.q_row(row)[d] *= 1e6f;
  }
  ForEachDevice([&](Stream& stream) {
    Output<float> out(3 * 16);
    problem.Run(out.data(), DType::kF32, stream);
    Synchronize(stream);
    for (int32_t row = 0; row < 3; ++row) {
      const std::vector<Reference> expected = problem.Expected(0, row, 0);
      for (int32_t d = 0; d < 16; ++d) {
        EXPECT_TRUE(IsClose(out[row * 16 + d], expected[d], kF32Close));
      }
    }
  });
}

TEST(AttentionTest, HugeScoresStayFinite) {
  ExpectHugeScoresStayFinite(0.0f);
  ExpectHugeScoresStayFinite(50.0f);
}

// NaN in a query must reach its output, where sampling finds it, and no other row.
template <typename T>
void ExpectNanStaysInItsRow(int64_t misalign) {
  Problem<T> problem(Case{"", 2, 1, 16, 16, 0, {{70, 3}, {70, 1}}}, misalign);
  problem.q_row(1)[3] = std::numeric_limits<float>::quiet_NaN();
  ForEachDevice([&](Stream& stream) {
    Output<float> out(problem.num_rows() * problem.row_elements());
    problem.Run(out.data(), DType::kF32, stream);
    Synchronize(stream);
    for (int64_t i = 0; i < out.size(); ++i) {
      EXPECT_EQ(std::isnan(out[i]), i >= 32 && i < 48) << i;
    }
  });
}

TEST(AttentionTest, NanStaysInItsRow) {
  ExpectNanStaysInItsRow<float>(1);
  ExpectNanStaysInItsRow<Bfloat16>(0);
}

TEST(AttentionDeathTest, RefusesBadShapes) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const int32_t begins[] = {0, 1};
  const int32_t kv_tokens[] = {17};
  const int32_t pages[] = {0};
  std::vector<float> pool(4096), q(64), out(64);
  const AttentionArgs good{.layout = {.num_layers = 1,
                                      .num_kv_heads = 1,
                                      .head_dim = 16,
                                      .page_tokens = 32,
                                      .dtype = DType::kF32},
                           .pool = pool.data(),
                           .pages = pages,
                           .page_begin = begins,
                           .row_begin = begins,
                           .kv_tokens = kv_tokens,
                           .num_sequences = 1,
                           .num_heads = 2,
                           .q = q.data(),
                           .q_stride = 32,
                           .out = out.data(),
                           .scale = 0.25f};
  Attention(good, stream);
  AttentionArgs args = good;
  args.layout.page_tokens = 16;  // one page does not hold 17 positions
  EXPECT_DEATH(Attention(args, stream), "kv_tokens");
  args = good;
  args.num_heads = 0;
  EXPECT_DEATH(Attention(args, stream), "heads");
  args = good;
  args.q_stride = 31;
  EXPECT_DEATH(Attention(args, stream), "q_stride");
  args = good;
  args.out = nullptr;
  EXPECT_DEATH(Attention(args, stream), "out");
  args = good;
  args.layout.head_dim = 257;
  args.q_stride = 1000;
  EXPECT_DEATH(Attention(args, stream), "head_dim");
}

}  // namespace attention_test
}  // namespace graft
