#include "kernels/sampling/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/common/op_test_util.h"

namespace graft {
namespace sampling_test {

using testing::ForEachDevice;
using testing::Input;
using testing::Output;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");
const int32_t kVocabs[] = {1, 2, 15, 63, 64, 65, 129, 1000, 32003};

std::vector<float> RandomLogits(int32_t n, uint64_t seed, double scale = 3.0) {
  Random random(seed);
  std::vector<float> logits(n);
  for (float& logit : logits) logit = static_cast<float>(random.Normal() * scale);
  return logits;
}

constexpr int32_t kRowsMax = 64, kVocabMax = 152000;

// Scratch that is large enough for every test of this file. The CPU needs none.
SamplingScratch* ScratchOf(const Stream& stream) {
  if (stream.device.is_cpu()) return nullptr;
  static auto* const scratch = new SamplingScratch(kRowsMax, kVocabMax, stream.device);
  return scratch;
}

SampledToken SampleOne(const std::vector<float>& logits, const SamplingRow& row, Stream& stream) {
  static auto* const memory = new PinnedBuffer(sizeof(SampledToken) + kVocabMax * sizeof(float));
  auto* out = memory->as<SampledToken>();
  auto* copy = reinterpret_cast<float*>(out + 1);
  *out = SampledToken{};
  std::copy(logits.begin(), logits.end(), copy);
  Sample({.logits = copy,
          .vocab_size = static_cast<int32_t>(logits.size()),
          .rows = &row,
          .out = out,
          .num_rows = 1,
          .scratch = ScratchOf(stream)},
         stream);
  Synchronize(stream);
  return *out;
}

double NaiveLogSumExp(const std::vector<float>& logits) {
  const double maximum = *std::max_element(logits.begin(), logits.end());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - maximum);
  return maximum + std::log(sum);
}

int32_t NaiveArgmax(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// Ids in the order of their logits; equal ones in ascending order.
std::vector<int32_t> NaiveOrder(const std::vector<float>& logits) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  return order;
}

void ExpectSame(const SampledToken& a, const SampledToken& b) {
  EXPECT_EQ(a.token, b.token);
  EXPECT_EQ(a.logprob, b.logprob);
  EXPECT_EQ(a.not_finite, b.not_finite);
  ASSERT_EQ(a.num_top, b.num_top);
  for (int32_t i = 0; i < a.num_top; ++i) {
    EXPECT_EQ(a.top_tokens[i], b.top_tokens[i]);
    EXPECT_EQ(a.top_logprobs[i], b.top_logprobs[i]);
  }
}

TEST(SamplingTest, GreedyTakesTheLowestOfTheLargest) {
  for (const int32_t n : kVocabs) {
    SCOPED_TRACE(n);
    std::vector<float> logits = RandomLogits(n, n);
    ForEachDevice([&](Stream& stream) {
      EXPECT_EQ(SampleOne(logits, {}, stream).token, NaiveArgmax(logits));
      std::vector<float> tied = logits;
      for (const int32_t i : {n - 1, n / 2, n / 3}) {
        tied[i] = 100.0f;
        EXPECT_EQ(SampleOne(tied, {}, stream).token, i);
      }
      const std::vector<float> equal(n, -7.0f);
      EXPECT_EQ(SampleOne(equal, {}, stream).token, 0);
    });
  }
}

TEST(SamplingTest, LogprobsMatchReference) {
  for (const int32_t n : kVocabs) {
    SCOPED_TRACE(n);
    std::vector<float> logits = RandomLogits(n, 17 + n, 6.0);
    if (n > 2) logits[n / 2] = logits[n - 1];  // among equals the lower id comes first
    const double log_sum = NaiveLogSumExp(logits);
    const std::vector<int32_t> order = NaiveOrder(logits);
    ForEachDevice([&](Stream& stream) {
      for (const int32_t k : {0, 1, 5, kLogprobsMax}) {
        const SampledToken out =
            SampleOne(logits, {.temperature = 1.3f, .seed = 5, .num_logprobs = k}, stream);
        EXPECT_NEAR(out.logprob, logits[out.token] - log_sum, 2e-5);
        ASSERT_EQ(out.num_top, std::min(n, k));
        for (int32_t i = 0; i < out.num_top; ++i) {
          EXPECT_EQ(out.top_tokens[i], order[i]);
          EXPECT_NEAR(out.top_logprobs[i], logits[order[i]] - log_sum, 2e-5);
        }
      }
      EXPECT_EQ(SampleOne(logits, {}, stream).num_top, 0);
    });
  }
}

TEST(SamplingTest, LogprobsAreBeforePenaltiesAndTemperature) {
  const std::vector<float> logits = RandomLogits(100, 3);
  const int32_t best = NaiveArgmax(logits);
  ForEachDevice([&](Stream& stream) {
    const SampledToken out =
        SampleOne(logits, {.num_logprobs = 1, .banned = &best, .num_banned = 1}, stream);
    EXPECT_NE(out.token, best);
    EXPECT_EQ(out.top_tokens[0], best);
    EXPECT_NEAR(out.logprob, logits[out.token] - NaiveLogSumExp(logits), 2e-5);
  });
}

TEST(SamplingTest, FlawedLogitsAreReportedWhereverTheyStand) {
  for (const int32_t n : {1, 15, 64, 65, 1000}) {
    SCOPED_TRACE(n);
    ForEachDevice([&](Stream& stream) {
      for (const int32_t i : {0, n / 2, n - 1}) {
        for (const float flaw : {kNan, -kNan, kInfinity}) {
          std::vector<float> logits = RandomLogits(n, 3);
          logits[i] = flaw;
          for (const float temperature : {0.0f, 1.0f}) {
            const SampledToken out =
                SampleOne(logits, {.temperature = temperature, .num_logprobs = 3}, stream);
            EXPECT_TRUE(out.not_finite);
            EXPECT_EQ(out.token, -1);
            EXPECT_EQ(out.num_top, 0);
          }
        }
      }
      EXPECT_TRUE(SampleOne(std::vector<float>(n, -kInfinity), {}, stream).not_finite);
    });
  }
}

TEST(SamplingTest, MinusInfinityIsAProbabilityOfZero) {
  std::vector<float> logits(200, -kInfinity);
  logits[7] = 1.0f;
  logits[150] = 1.0f;
  ForEachDevice([&](Stream& stream) {
    int32_t first = 0;
    for (uint64_t draw = 0; draw < 200; ++draw) {
      for (const float top_p : {1.0f, 0.99f}) {
        const SampledToken out = SampleOne(
            logits,
            {.temperature = 1.0f, .top_p = top_p, .seed = 1, .draw_idx = draw, .num_logprobs = 5},
            stream);
        ASSERT_TRUE(out.token == 7 || out.token == 150) << out.token;
        EXPECT_EQ(out.num_top, 2);
        EXPECT_NEAR(out.logprob, std::log(0.5), 1e-6);
        first += out.token == 7;
      }
    }
    EXPECT_GT(first, 140);
    EXPECT_LT(first, 260);
  });
}

TEST(SamplingTest, NothingLeftToDraw) {
  const std::vector<float> logits = {1.0f, 2.0f, -kInfinity};
  const int32_t banned[] = {0, 1};
  ForEachDevice([&](Stream& stream) {
    for (const float temperature : {0.0f, 1.0f}) {
      const SampledToken out = SampleOne(
          logits,
          {.temperature = temperature, .num_logprobs = 2, .banned = banned, .num_banned = 2},
          stream);
      EXPECT_TRUE(out.not_finite);
      EXPECT_EQ(out.token, -1);
      EXPECT_EQ(out.num_top, 0);
    }
  });
}

// Penalties, bias and bans. Which token greedy sampling takes shows what they did.
TEST(SamplingTest, AdjustmentsMatchReference) {
  Random random(11);
  for (int round = 0; round < 200; ++round) {
    const auto n = static_cast<int32_t>(2 + random.Below(150));
    const std::vector<float> logits = RandomLogits(n, 1000 + round);
    std::vector<TokenCount> counts;
    std::vector<std::pair<int32_t, float>> bias;
    std::vector<int32_t> banned;
    std::vector<uint32_t> mask(NumMaskWords(n), ~uint32_t{0});
    for (int32_t i = 0; i < n; ++i) {
      if (random.Uniform() < 0.4) {
        counts.push_back({i, static_cast<int32_t>(random.Below(3)), random.Uniform() < 0.5});
      }
      if (random.Uniform() < 0.2) bias.push_back({i, static_cast<float>(random.Normal() * 3)});
      if (random.Uniform() < 0.2) banned.push_back(i);
      if (i > 0 && random.Uniform() < 0.3) mask[i / 32] &= ~(uint32_t{1} << (i % 32));
    }
    if (!banned.empty() && banned.front() == 0) banned.erase(banned.begin());
    const SamplingRow row{.repetition_penalty = static_cast<float>(0.5 + 2 * random.Uniform()),
                          .frequency_penalty = static_cast<float>(4 * random.Uniform() - 2),
                          .presence_penalty = static_cast<float>(4 * random.Uniform() - 2),
                          .counts = counts.data(),
                          .num_counts = static_cast<int32_t>(counts.size()),
                          .logit_bias = bias.data(),
                          .num_logit_bias = static_cast<int32_t>(bias.size()),
                          .banned = banned.data(),
                          .num_banned = static_cast<int32_t>(banned.size()),
                          .mask = round % 2 == 0 ? mask.data() : nullptr};
    std::vector<float> adjusted = logits;
    for (const TokenCount& count : counts) {
      float& logit = adjusted[count.token];
      if (count.in_prompt || count.num_output > 0) {
        logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
      }
      logit -= row.frequency_penalty * static_cast<float>(count.num_output);
      if (count.num_output > 0) logit -= row.presence_penalty;
    }
    for (const auto& [token, value] : bias) adjusted[token] += value;
    for (const int32_t token : banned) adjusted[token] = -kInfinity;
    for (int32_t i = 0; i < n && row.mask != nullptr; ++i) {
      if (!IsInMask(row.mask, i)) adjusted[i] = -kInfinity;
    }
    ForEachDevice([&](Stream& stream) {
      EXPECT_EQ(SampleOne(logits, row, stream).token, NaiveArgmax(adjusted)) << round;
    });
  }
}

// A mask allows no token, or one: the first, one in the middle or the last. Its bits beyond the
// vocabulary are all set, and must not count.
TEST(SamplingTest, AMaskLeavesItsTokensAlone) {
  for (const int32_t n : {1, 31, 32, 33, 1000}) {
    const std::vector<float> logits = RandomLogits(n, 77);
    std::vector<uint32_t> mask(NumMaskWords(n));
    if (n % 32 != 0) mask.back() = ~uint32_t{0} << (n % 32);
    ForEachDevice([&](Stream& stream) {
      for (const float temperature : {0.0f, 1.0f}) {
        std::vector<uint32_t> one = mask;
        EXPECT_TRUE(
            SampleOne(logits, {.temperature = temperature, .mask = one.data()}, stream).not_finite)
            << "no token is left";
        for (const int32_t token : {0, n / 2, n - 1}) {
          one = mask;
          one[token / 32] |= uint32_t{1} << (token % 32);
          const SampledToken out = SampleOne(
              logits, {.temperature = temperature, .num_logprobs = 0, .mask = one.data()}, stream);
          EXPECT_EQ(out.token, token) << n;
          EXPECT_NEAR(out.logprob, logits[token] - NaiveLogSumExp(logits), 2e-5);
        }
      }
    });
  }
}

TEST(SamplingTest, SmallestAndLargestTemperatures) {
  std::vector<float> logits = RandomLogits(300, 9);
  logits[40] = logits[41] = 50.0f;
  ForEachDevice([&](Stream& stream) {
    for (const float temperature : {1e-45f, 1e-38f, 1e-20f, 1e-6f}) {
      bool seen[2] = {};
      for (uint64_t draw = 0; draw < 40; ++draw) {
        for (const float top_p : {1.0f, 0.9f}) {
          const SampledToken out = SampleOne(
              logits, {.temperature = temperature, .top_p = top_p, .min_p = 0.1f, .draw_idx = draw},
              stream);
          ASSERT_TRUE(out.token == 40 || out.token == 41) << out.token;
          seen[out.token - 40] = true;
        }
      }
      EXPECT_TRUE(seen[0] && seen[1]);
    }
    for (const float top_p : {1.0f, 0.5f}) {
      for (uint64_t draw = 0; draw < 20; ++draw) {
        const SampledToken out =
            SampleOne(logits, {.temperature = 3e38f, .top_p = top_p, .draw_idx = draw}, stream);
        EXPECT_TRUE(out.token >= 0 && out.token < 300);
      }
    }
  });
}

// Rows of all kinds, some of them broken, in one launch: each must be as if it were alone.
TEST(SamplingTest, RowsDoNotDependOnEachOther) {
  constexpr int32_t kRows = 24, kVocab = 3001;
  auto logits = Input<float>::Normal(int64_t{kRows} * kVocab, 4, 3, 3.0);
  logits[5 * kVocab + 77] = kNan;
  logits[6 * kVocab + 3000] = kInfinity;
  const int32_t banned = 12;
  std::vector<SamplingRow> rows(kRows);
  for (int32_t i = 0; i < kRows; ++i) {
    rows[i] = {.temperature = static_cast<float>(i % 4) * 0.6f,
               .top_p = i % 3 == 0 ? 0.8f : 1.0f,
               .top_k = i % 5 == 0 ? 40 : 0,
               .min_p = i % 7 == 0 ? 0.05f : 0.0f,
               .seed = static_cast<uint64_t>(i % 2),
               .draw_idx = static_cast<uint64_t>(i / 2),
               .num_logprobs = i % 6 - 1};
    if (i % 2 == 0) rows[i].banned = &banned, rows[i].num_banned = 1;
  }
  const std::vector<float> before(logits.data(), logits.data() + logits.size());
  ForEachDevice([&](Stream& stream) {
    Output<SampledToken> together(kRows);
    Sample({.logits = logits.data(),
            .vocab_size = kVocab,
            .rows = rows.data(),
            .out = together.data(),
            .num_rows = kRows,
            .scratch = ScratchOf(stream)},
           stream);
    Synchronize(stream);
    EXPECT_TRUE(together.GuardsIntact());
    for (int32_t i = 0; i < kRows; ++i) {
      SCOPED_TRACE(i);
      const float* row = logits.data() + int64_t{i} * kVocab;
      ExpectSame(together[i], SampleOne({row, row + kVocab}, rows[i], stream));
      EXPECT_EQ(together[i].not_finite, i == 5 || i == 6);
    }
    EXPECT_TRUE(testing::BitEqual(before.data(), logits.data(), logits.size()));
  });
}

TEST(SamplingTest, NoRows) {
  ForEachDevice([](Stream& stream) {
    Sample({}, stream);
    TokenLogprobs({}, stream);
  });
}

TEST(TokenLogprobsTest, MatchesReference) {
  constexpr int32_t kRows = 9;
  for (const int32_t n : kVocabs) {
    SCOPED_TRACE(n);
    auto logits = Input<float>::Normal(int64_t{kRows} * n, n, 1, 5.0);
    logits[int64_t{4} * n + n / 2] = kNan;
    if (n > 2) logits[int64_t{7} * n + 1] = -kInfinity;
    std::vector<int32_t> tokens(kRows);
    for (int32_t i = 0; i < kRows; ++i) tokens[i] = (i * 31) % n;
    if (n > 2) tokens[7] = 1;
    ForEachDevice([&](Stream& stream) {
      Output<SampledToken> out(kRows);
      TokenLogprobs({.logits = logits.data(),
                     .vocab_size = n,
                     .tokens = tokens.data(),
                     .num_top = 3,
                     .out = out.data(),
                     .num_rows = kRows,
                     .scratch = ScratchOf(stream)},
                    stream);
      Synchronize(stream);
      EXPECT_TRUE(out.GuardsIntact());
      for (int32_t i = 0; i < kRows; ++i) {
        SCOPED_TRACE(i);
        const float* row = logits.data() + int64_t{i} * n;
        const std::vector<float> values(row, row + n);
        ASSERT_EQ(out[i].not_finite, i == 4);
        if (i == 4) {
          EXPECT_EQ(out[i].token, -1);
          continue;
        }
        EXPECT_EQ(out[i].token, tokens[i]);
        const double log_sum = NaiveLogSumExp(values);
        if (values[tokens[i]] == -kInfinity) {
          EXPECT_EQ(out[i].logprob, -kInfinity);
        } else {
          EXPECT_NEAR(out[i].logprob, values[tokens[i]] - log_sum, 2e-5);
        }
        const std::vector<int32_t> order = NaiveOrder(values);
        for (int32_t t = 0; t < out[i].num_top; ++t) EXPECT_EQ(out[i].top_tokens[t], order[t]);
      }
    });
  }
}

// The GPU draws what the CPU draws: both use the same weights, and their sums differ by less than a
// millionth, so that a uniform number rarely falls in between.
TEST(SamplingCudaTest, DrawsWhatTheCpuDraws) {
  constexpr int32_t kRounds = 60;
  Random random(77);
  int32_t num_draws = 0, num_equal = 0;
  testing::ForFirstGpu([&](Stream& gpu) {
    Stream cpu{.device = {}, .cpu_threads = gpu.cpu_threads};
    for (int32_t round = 0; round < kRounds; ++round) {
      const auto n = static_cast<int32_t>(1 + random.Below(round % 6 == 0 ? 40000 : 900));
      const double scale = std::vector<double>{4.0, 0.01, 2.0, 1.0}[round % 4];
      auto logits = Input<float>::Normal(int64_t{kRowsMax} * n, round, round % 2, scale);
      if (round % 4 == 2) {
        for (int64_t i = 0; i < logits.size(); ++i) logits[i] = std::round(logits[i]);
      }
      std::vector<SamplingRow> rows(kRowsMax);
      for (SamplingRow& row : rows) {
        row.temperature = static_cast<float>(0.2 + 1.8 * random.Uniform());
        if (random.Uniform() < 0.5) {
          row.top_k = static_cast<int32_t>(1 + random.Below(random.Uniform() < 0.2 ? 2000 : 90));
        }
        if (random.Uniform() < 0.5) row.top_p = static_cast<float>(0.02 + 0.97 * random.Uniform());
        if (random.Uniform() < 0.4) row.min_p = static_cast<float>(0.3 * random.Uniform());
        row.seed = random.Bits();
        row.draw_idx = random.Below(1000);
      }
      Output<SampledToken> on_gpu(kRowsMax), on_cpu(kRowsMax);
      Output<int32_t> device_tokens(kRowsMax);
      SamplingArgs args{.logits = logits.data(),
                        .vocab_size = n,
                        .rows = rows.data(),
                        .out = on_cpu.data(),
                        .num_rows = kRowsMax};
      Sample(args, cpu);
      args.out = on_gpu.data();
      args.scratch = ScratchOf(gpu);
      args.device_tokens = device_tokens.data();
      Sample(args, gpu);
      Synchronize(gpu);
      EXPECT_TRUE(on_gpu.GuardsIntact());
      EXPECT_TRUE(device_tokens.GuardsIntact());
      for (int32_t i = 0; i < kRowsMax; ++i) {
        EXPECT_EQ(device_tokens[i], on_gpu[i].token);
        ++num_draws;
        num_equal += on_gpu[i].token == on_cpu[i].token;
      }
    }
  });
  EXPECT_GE(num_equal, num_draws - num_draws / 1000) << "of " << num_draws;
}

// Pearson's statistic of the draws with each kind of filter, against the probabilities that the
// CPU's filters leave (candidates_test.cc checks those).
TEST(SamplingCudaTest, DrawsFollowTheDistribution) {
  constexpr int32_t kVocab = 50, kRounds = 300;
  const SamplingRow cases[] = {{.temperature = 1.3f},
                               {.temperature = 1.0f, .top_k = 7},
                               {.temperature = 1.0f, .top_p = 0.8f},
                               {.temperature = 2.0f, .min_p = 0.1f}};
  const std::vector<float> one = RandomLogits(kVocab, 5, 1.5);
  Input<float> logits(int64_t{kRowsMax} * kVocab);
  for (int64_t i = 0; i < logits.size(); ++i) logits[i] = one[i % kVocab];
  testing::ForFirstGpu([&](Stream& stream) {
    for (const SamplingRow& settings : cases) {
      std::vector<SamplingRow> rows(kRowsMax, settings);
      std::vector<double> counts(kVocab);
      Output<SampledToken> out(kRowsMax);
      for (int32_t round = 0; round < kRounds; ++round) {
        for (int32_t i = 0; i < kRowsMax; ++i) rows[i].draw_idx = round * kRowsMax + i;
        Sample({.logits = logits.data(),
                .vocab_size = kVocab,
                .rows = rows.data(),
                .out = out.data(),
                .num_rows = kRowsMax,
                .scratch = ScratchOf(stream)},
               stream);
        Synchronize(stream);
        for (int32_t i = 0; i < kRowsMax; ++i) counts[out[i].token] += 1.0;
      }
      const std::vector<int32_t> order = NaiveOrder(one);
      std::vector<double> weights(kVocab);
      for (int32_t i = 0; i < kVocab; ++i) {
        weights[i] = std::exp((double{one[i]} - one[order[0]]) / settings.temperature);
      }
      const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
      double kept = 0.0;
      for (int32_t rank = 0; rank < kVocab; ++rank) {
        double& weight = weights[order[rank]];
        const bool cut = (settings.top_k > 0 && rank >= settings.top_k) ||
                         (settings.top_p < 1.0f && kept >= settings.top_p * all) ||
                         weight < settings.min_p;
        if (cut) weight = 0.0;
        kept += weight;
      }
      double statistic = 0.0;
      int32_t freedom = -1;
      for (int32_t i = 0; i < kVocab; ++i) {
        const double expected = weights[i] / kept * kRounds * kRowsMax;
        EXPECT_TRUE(expected > 0.0 || counts[i] == 0.0) << "token " << i << " was cut";
        if (expected < 5.0) continue;
        statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
        ++freedom;
      }
      EXPECT_LT(statistic, freedom + 4.0 * std::sqrt(2.0 * freedom) + 1.0);
    }
  });
}

TEST(SamplingDeathTest, RefusesBadSettings) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const std::vector<float> logits(8, 0.0f);
  EXPECT_DEATH(SampleOne(logits, {.temperature = -1.0f}, stream), "temperature");
  EXPECT_DEATH(SampleOne(logits, {.temperature = kInfinity}, stream), "temperature");
  EXPECT_DEATH(SampleOne(logits, {.top_p = 0.0f}, stream), "top_p");
  EXPECT_DEATH(SampleOne(logits, {.min_p = 1.5f}, stream), "min_p");
  EXPECT_DEATH(SampleOne(logits, {.repetition_penalty = 0.0f}, stream), "repetition_penalty");
  EXPECT_DEATH(SampleOne(logits, {.num_logprobs = kLogprobsMax + 1}, stream), "num_logprobs");
  const int32_t outside = 8;
  EXPECT_DEATH(SampleOne(logits, {.banned = &outside, .num_banned = 1}, stream), "token 8");
  EXPECT_DEATH(SampleOne(logits, {.num_banned = 1}, stream), "banned");
}

}  // namespace sampling_test
}  // namespace graft
