// What the filters keep and which token is drawn, against a naive reference that sorts everything.
#include "kernels/sampling/candidates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "kernels/common/op_test_util.h"
#include "kernels/sampling/row_scan.h"

namespace graft {
namespace candidates_test {

using testing::ForEachCpu;

// A row of logits with its maxima, as Sample passes it on.
class Row {
 public:
  explicit Row(std::vector<float> logits) : logits_(std::move(logits)) {
    const auto n = static_cast<int32_t>(logits_.size());
    maxima_.assign(NumScanBlocks(n), -std::numeric_limits<float>::infinity());
    for (int32_t i = 0; i < n; ++i) {
      float& maximum = maxima_[i / kScanBlock];
      maximum = std::max(maximum, logits_[i]);
    }
  }
  const std::vector<float>& logits() const { return logits_; }
  int32_t n() const { return static_cast<int32_t>(logits_.size()); }
  ScannedRow scanned() const {
    return {.logits = logits_.data(),
            .n = n(),
            .maxima = maxima_.data(),
            .maximum = *std::max_element(maxima_.begin(), maxima_.end())};
  }

 private:
  std::vector<float> logits_;
  std::vector<float> maxima_;
};

// Probabilities of all tokens after the filters; zero where a filter cuts. A positive `slack`
// loosens top_p and min_p and a negative one tightens them, for tokens within rounding of the
// borders.
std::vector<double> NaiveFilter(const std::vector<float>& logits, const SamplingRow& row,
                                double slack) {
  const size_t n = logits.size();
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<double> weights(n);
  for (size_t i = 0; i < n; ++i) {
    weights[i] = std::exp((double{logits[order[i]]} - logits[order[0]]) / row.temperature);
  }
  size_t kept = n;
  if (row.top_k > 0 && static_cast<size_t>(row.top_k) < n) {
    kept = row.top_k;
    while (kept < n && logits[order[kept]] == logits[order[row.top_k - 1]]) ++kept;
  }
  const double total = std::accumulate(weights.begin(), weights.begin() + kept, 0.0);
  if (row.top_p < 1.0f) {
    double sum = 0.0;
    size_t i = 0;
    while (i < kept && (i == 0 || sum < (row.top_p + slack) * total)) sum += weights[i++];
    kept = i;
  }
  while (kept > 1 && weights[kept - 1] < row.min_p * (1.0 - slack)) --kept;
  std::vector<double> probabilities(n, 0.0);
  const double kept_total = std::accumulate(weights.begin(), weights.begin() + kept, 0.0);
  for (size_t i = 0; i < kept; ++i) probabilities[order[i]] = weights[i] / kept_total;
  return probabilities;
}

// Peaked, flat, quantised (many equals) and long-tailed rows.
Row RandomRow(int32_t n, int kind, Random& random) {
  std::vector<float> logits(n);
  for (float& logit : logits) {
    const double normal = random.Normal();
    switch (kind) {
      case 0:
        logit = static_cast<float>(normal * 8.0);
        break;
      case 1:
        logit = static_cast<float>(normal * 0.01);
        break;
      case 2:
        logit = static_cast<float>(std::round(normal * 2.0));
        break;
      default:
        logit = static_cast<float>(-random.Exponential() * 3.0);
    }
  }
  return Row(std::move(logits));
}

SamplingRow RandomSettings(Random& random) {
  SamplingRow settings;
  settings.temperature = static_cast<float>(0.2 + 1.8 * random.Uniform());
  if (random.Uniform() < 0.5) settings.top_k = static_cast<int32_t>(1 + random.Below(90));
  if (random.Uniform() < 0.5) settings.top_p = static_cast<float>(0.02 + 0.97 * random.Uniform());
  if (random.Uniform() < 0.4) settings.min_p = static_cast<float>(0.3 * random.Uniform());
  settings.seed = random.Bits();
  return settings;
}

TEST(CandidatesTest, FiltersKeepWhatTheReferenceKeeps) {
  ForEachCpu([](Stream& stream) {
    Random random(42);
    RowScratch scratch;
    int num_checked = 0, num_exact = 0;
    for (int round = 0; round < 400; ++round) {
      const auto n = static_cast<int32_t>(1 + random.Below(round % 10 == 0 ? 9000 : 300));
      const Row row = RandomRow(n, round % 4, random);
      const SamplingRow settings = RandomSettings(random);
      if (!HasFilter(settings, n)) continue;
      ++num_checked;
      Candidates kept;
      FilterRow(row.scanned(), settings, stream, scratch, &kept);
      ASSERT_TRUE(std::is_sorted(kept.tokens.begin(), kept.tokens.end()));
      ASSERT_EQ(kept.weights.size(), kept.tokens.size());
      std::vector<bool> is_kept(n);
      for (const int32_t token : kept.tokens) is_kept[token] = true;
      const std::vector<double> least = NaiveFilter(row.logits(), settings, -2e-6);
      const std::vector<double> most = NaiveFilter(row.logits(), settings, 2e-6);
      bool exact = true;
      for (int32_t i = 0; i < n; ++i) {
        const bool must = least[i] > 0.0;
        const bool may = most[i] > 0.0;
        ASSERT_TRUE(is_kept[i] ? may : !must) << "round " << round << ", token " << i;
        exact &= must == may;
      }
      num_exact += exact;
    }
    EXPECT_GT(num_checked, 250);
    EXPECT_GT(num_exact, num_checked * 9 / 10) << "too many cases within rounding of a border";
  });
}

TEST(CandidatesTest, TopPKeepsTheFewestThatReachIt) {
  const Row row({0.0f, 0.0f, 0.0f, 0.0f});
  ForEachCpu([&](Stream& stream) {
    RowScratch scratch;
    Candidates kept;
    const auto tokens = [&](float top_p) {
      FilterRow(row.scanned(), {.temperature = 1.0f, .top_p = top_p}, stream, scratch, &kept);
      return kept.tokens;
    };
    EXPECT_EQ(tokens(0.5f), (std::vector<int32_t>{0, 1}));
    EXPECT_EQ(tokens(0.51f), (std::vector<int32_t>{0, 1, 2}));
    EXPECT_EQ(tokens(0.25f), (std::vector<int32_t>{0}));
    EXPECT_EQ(tokens(1e-9f), (std::vector<int32_t>{0}));
    EXPECT_EQ(tokens(0.9999f), (std::vector<int32_t>{0, 1, 2, 3}));
  });
}

TEST(CandidatesTest, TopKKeepsEquals) {
  const Row row({3.0f, 1.0f, 2.0f, 1.0f, 0.0f});
  ForEachCpu([&](Stream& stream) {
    RowScratch scratch;
    Candidates kept;
    const auto tokens = [&](int32_t top_k) {
      FilterRow(row.scanned(), {.temperature = 1.0f, .top_k = top_k}, stream, scratch, &kept);
      return kept.tokens;
    };
    EXPECT_EQ(tokens(1), (std::vector<int32_t>{0}));
    EXPECT_EQ(tokens(2), (std::vector<int32_t>{0, 2}));
    EXPECT_EQ(tokens(3), (std::vector<int32_t>{0, 1, 2, 3}));
    EXPECT_EQ(tokens(4), (std::vector<int32_t>{0, 1, 2, 3}));
    EXPECT_FALSE(HasFilter({.temperature = 1.0f, .top_k = 5}, 5));
  });
}

// Every drawn token must be the one at which the sum of probabilities, in the order of ids, passes
// the uniform number.
TEST(CandidatesTest, DrawIsTheInverseCdf) {
  ForEachCpu([](Stream& stream) {
    Random random(7);
    RowScratch scratch;
    int num_clear = 0, num_draws = 0;
    for (int round = 0; round < 200; ++round) {
      const auto n = static_cast<int32_t>(1 + random.Below(400));
      const Row row = RandomRow(n, round % 4, random);
      SamplingRow settings = RandomSettings(random);
      if (round % 3 == 0) settings.top_k = 0, settings.top_p = 1.0f, settings.min_p = 0.0f;
      const std::vector<double> least = NaiveFilter(row.logits(), settings, -2e-6);
      const std::vector<double> most = NaiveFilter(row.logits(), settings, 2e-6);
      if (least != most) continue;
      for (settings.draw_idx = 0; settings.draw_idx < 20; ++settings.draw_idx) {
        const int32_t token = DrawToken(row.scanned(), settings, stream, scratch);
        const double uniform = RandomUniform(settings.seed, settings.draw_idx);
        const double before = std::accumulate(most.begin(), most.begin() + token, 0.0);
        ASSERT_GT(most[token], 0.0);
        ASSERT_GE(uniform, before - 1e-5) << "round " << round;
        ASSERT_LE(uniform, before + most[token] + 1e-5) << "round " << round;
        ++num_draws;
        num_clear += most[token] > 1e-4;
      }
    }
    EXPECT_GT(num_draws, 2500);
    EXPECT_GT(num_clear, num_draws / 2);
  });
}

// Pearson's statistic over the tokens that are expected at least ten times; the others are one
// cell.
void ExpectDistribution(const std::vector<int64_t>& counts, const std::vector<double>& expected,
                        int64_t num_draws) {
  double statistic = 0.0, pooled_expected = 0.0;
  int64_t pooled_count = 0;
  int num_cells = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double mean = expected[i] * static_cast<double>(num_draws);
    EXPECT_TRUE(expected[i] > 0.0 || counts[i] == 0) << "token " << i << " was cut";
    if (mean < 10.0) {
      pooled_expected += mean;
      pooled_count += counts[i];
      continue;
    }
    const double difference = static_cast<double>(counts[i]) - mean;
    statistic += difference * difference / mean;
    ++num_cells;
  }
  if (pooled_expected >= 10.0) {
    const double difference = static_cast<double>(pooled_count) - pooled_expected;
    statistic += difference * difference / pooled_expected;
    ++num_cells;
  }
  // The limit is four standard deviations above the mean of chi-square. The seeds are fixed.
  const double freedom = num_cells - 1;
  EXPECT_LT(statistic, freedom + 4.0 * std::sqrt(2.0 * freedom) + 1.0) << num_cells << " cells";
}

TEST(CandidatesTest, DrawsFollowTheDistribution) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  RowScratch scratch;
  Random random(5);
  const SamplingRow cases[] = {
      {.temperature = 1.0f},
      {.temperature = 0.5f},
      {.temperature = 2.5f},
      {.temperature = 1.0f, .top_p = 0.7f},
      {.temperature = 1.0f, .top_k = 5},
      {.temperature = 1.5f, .min_p = 0.2f},
      {.temperature = 1.2f, .top_p = 0.9f, .top_k = 30, .min_p = 0.02f},
  };
  for (const int32_t n : {6, 200}) {
    const Row row = RandomRow(n, 3, random);
    for (SamplingRow settings : cases) {
      // One seed with many draws, as in a long answer, and many seeds with one draw each.
      for (const bool many_seeds : {false, true}) {
        constexpr int64_t kDraws = 20000;
        std::vector<int64_t> counts(n);
        for (int64_t i = 0; i < kDraws; ++i) {
          settings.seed = many_seeds ? 900 + i : 900;
          settings.draw_idx = many_seeds ? 0 : i;
          ++counts[DrawToken(row.scanned(), settings, stream, scratch)];
        }
        ExpectDistribution(counts, NaiveFilter(row.logits(), settings, 0.0), kDraws);
      }
    }
  }
}

TEST(CandidatesTest, GatherLargestHoldsTheLargest) {
  Random random(3);
  RowScratch scratch;
  for (const int32_t n : {1, 64, 65, 5000}) {
    const Row row = RandomRow(n, 2, random);
    std::vector<float> sorted = row.logits();
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    for (const int32_t k : {1, 3, 20, 78, 200}) {
      Candidates candidates;
      GatherLargest(row.scanned(), k, scratch, &candidates);
      const auto wanted = static_cast<size_t>(std::min(k, n));
      ASSERT_GE(candidates.tokens.size(), wanted);
      std::sort(candidates.logits.begin(), candidates.logits.end(), std::greater<>());
      EXPECT_TRUE(std::equal(sorted.begin(), sorted.begin() + static_cast<int64_t>(wanted),
                             candidates.logits.begin()));
    }
  }
}

}  // namespace candidates_test
}  // namespace graft
