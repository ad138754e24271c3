#include "model/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

namespace graft {
namespace {

TEST(RopeTableTest, PlainAndLinear) {
  RopeConfig rope{.theta = 10000.0};
  const std::vector<float> plain = RopeFrequencies(rope, 8, 4096);
  ASSERT_EQ(plain.size(), 4u);
  EXPECT_EQ(plain[0], 1.0f);
  EXPECT_FLOAT_EQ(plain[1], 0.1f);
  EXPECT_FLOAT_EQ(plain[2], 0.01f);
  EXPECT_FLOAT_EQ(plain[3], 0.001f);
  rope.scaling = RopeScaling::kLinear;
  rope.factor = 4.0;
  const std::vector<float> linear = RopeFrequencies(rope, 8, 4096);
  for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(linear[i], plain[i] / 4.0f);
}

// The published settings of Llama 3.1. The first frequencies stay and the last are divided by
// eight, with a blend without a jump in between.
TEST(RopeTableTest, Llama3) {
  RopeConfig rope{.theta = 500000.0};
  const std::vector<float> plain = RopeFrequencies(rope, 128, 4096);
  rope.scaling = RopeScaling::kLlama3;
  rope.factor = 8.0;
  rope.low_freq_factor = 1.0;
  rope.high_freq_factor = 4.0;
  rope.original_tokens = 8192;
  const std::vector<float> scaled = RopeFrequencies(rope, 128, 4096);
  int num_kept = 0;
  int num_blended = 0;
  int num_divided = 0;
  for (int i = 0; i < 64; ++i) {
    const double wavelength = 2.0 * M_PI / static_cast<double>(plain[i]);
    const double share = static_cast<double>(scaled[i]) / static_cast<double>(plain[i]);
    if (wavelength < 8192.0 / 4.0) {
      EXPECT_EQ(scaled[i], plain[i]) << i;
      ++num_kept;
    } else if (wavelength > 8192.0) {
      EXPECT_FLOAT_EQ(scaled[i], plain[i] / 8.0f) << i;
      ++num_divided;
    } else {
      // smooth = (original / wavelength - low) / (high - low), as HF spells it.
      const double smooth = (8192.0 / wavelength - 1.0) / 3.0;
      EXPECT_NEAR(share, (1.0 - smooth) / 8.0 + smooth, 1e-5) << i;
      ++num_blended;
    }
    if (i > 0) {
      EXPECT_LT(scaled[i], scaled[i - 1]);
    }
  }
  EXPECT_GT(num_kept, 20);
  EXPECT_GT(num_blended, 3);
  EXPECT_GT(num_divided, 20);
}

// HF's _compute_yarn_parameters gave these (transformers 5.24).
TEST(RopeTableTest, Yarn) {
  RopeConfig rope{.theta = 10000.0,
                  .scaling = RopeScaling::kYarn,
                  .factor = 8.0,
                  .original_tokens = 1024,
                  .attention_factor = 1.25};
  const auto expect = [&](const std::vector<float>& expected) {
    const std::vector<float> got =
        RopeFrequencies(rope, static_cast<int32_t>(2 * expected.size()), 4096);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i] / expected[i], 1.0f, 1e-6f) << i;
  };
  expect({1.0f, 0.31622776f, 0.078125f, 0.017787812f, 0.0034375f, 0.00039528473f, 0.00012500001f,
          3.9528473e-05f});
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const RopeTable table(rope, 16, 17, stream);
  EXPECT_FLOAT_EQ(table.cos()[0], 1.25f);
  EXPECT_FLOAT_EQ(table.sin()[3 * 8 + 1], 1.25f * std::sin(3.0f * 0.31622776f));
  rope.truncates = false;
  rope.beta_fast = 16.0;
  rope.beta_slow = 2.0;
  expect({1.0f, 0.31622776f, 0.1f, 0.016548309f, 0.00125f, 0.00039528473f, 0.00012500001f,
          3.9528473e-05f});
  // Both borders are below the first dimension.
  rope = {.theta = 10000.0, .scaling = RopeScaling::kYarn, .factor = 1.0, .original_tokens = 4};
  expect({1.0f, 0.31622776f, 0.1f, 0.031622779f, 0.01f, 0.0031622779f, 0.001f, 0.00031622779f});
  // Qwen2.5's, as its authors publish it: dimensions 0, 23, 24, 32, 40 and 63.
  rope = {.theta = 1e6, .scaling = RopeScaling::kYarn, .factor = 4.0, .original_tokens = 32768};
  const std::vector<float> qwen = RopeFrequencies(rope, 128, 131072);
  const std::pair<int, float> places[] = {{0, 1.0f},
                                          {23, 0.006978306f},
                                          {24, 0.0053753215f},
                                          {32, 0.00060294115f},
                                          {39, 6.4903943e-05f},
                                          {63, 3.1023444e-07f}};
  for (const auto& [i, expected] : places) EXPECT_NEAR(qwen[i] / expected, 1.0f, 1e-6f) << i;
}

TEST(RopeTableTest, NoRotation) {
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const RopeTable table({.scaling = RopeScaling::kNoRotation}, 8, 100, stream);
  for (int i = 0; i < 400; ++i) {
    ASSERT_EQ(table.cos()[i], 1.0f);
    ASSERT_EQ(table.sin()[i], 0.0f);
  }
}

TEST(RopeTableTest, CosinesAndSines) {
  ThreadPool threads(2);
  Stream stream{Device{}, &threads};
  const RopeConfig rope{.theta = 10000.0};
  const RopeTable table(rope, 16, 1000, stream);
  EXPECT_EQ(table.num_positions(), 1000);
  const std::vector<float> frequencies = RopeFrequencies(rope, 16, 4096);
  for (const int position : {0, 1, 63, 64, 500, 999}) {
    for (int i = 0; i < 8; ++i) {
      const double angle = position * std::pow(10000.0, -2.0 * i / 16.0);
      EXPECT_NEAR(static_cast<double>(table.cos()[position * 8 + i]), std::cos(angle), 1e-4);
      EXPECT_NEAR(static_cast<double>(table.sin()[position * 8 + i]), std::sin(angle), 1e-4);
    }
  }
}

// Training makes it beside requests, which have the threads in each pause.
TEST(RopeTableTest, ALongTableIsMadeInPieces) {
  ThreadPool threads(2);
  Stream stream{Device{}, &threads};
  const RopeConfig rope{.theta = 10000.0};
  int num_pauses = 0;
  const RopeTable whole(rope, 16, 5000, stream);
  const RopeTable pieces(rope, 16, 5000, stream, [&num_pauses] { ++num_pauses; });
  EXPECT_GE(num_pauses, 9);
  for (int64_t i = 0; i < 5000 * 8; ++i) {
    ASSERT_EQ(pieces.cos()[i], whole.cos()[i]);
    ASSERT_EQ(pieces.sin()[i], whole.sin()[i]);
  }
}

// Phi-3: one set of factors up to the original context, another one for all positions of a longer
// context.
TEST(RopeTableTest, LongRope) {
  RopeConfig rope{.theta = 10000.0, .scaling = RopeScaling::kLongRope, .original_tokens = 16};
  rope.short_factors = {1.0, 2.0};
  rope.long_factors = {4.0, 8.0};
  rope.attention_factor = 1.25;
  EXPECT_FLOAT_EQ(RopeFrequencies(rope, 4, 16)[0], 1.0f);
  EXPECT_FLOAT_EQ(RopeFrequencies(rope, 4, 16)[1], 0.005f);
  EXPECT_FLOAT_EQ(RopeFrequencies(rope, 4, 17)[0], 0.25f);
  EXPECT_FLOAT_EQ(RopeFrequencies(rope, 4, 17)[1], 0.00125f);
  ThreadPool threads(1);
  Stream stream{.device = {}, .cpu_threads = &threads};
  const RopeTable table(rope, 4, 17, stream);
  EXPECT_FLOAT_EQ(table.cos()[0], 1.25f);
  EXPECT_FLOAT_EQ(table.sin()[3 * 2], 1.25f * std::sin(0.75f));
}

}  // namespace
}  // namespace graft
