#include "keys/work_limits.h"

#include <gtest/gtest.h>

#include <map>

namespace graft {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

Work WorkOf(int32_t num_sequences, int64_t prompt_tokens, int64_t output_tokens) {
  return {num_sequences, prompt_tokens, prompt_tokens + output_tokens};
}

TEST(MinuteBucketTest, FillsWithTime) {
  MinuteBucket bucket(60, 0);
  EXPECT_EQ(bucket.WaitFor(60, 0), 0);
  bucket.Take(60);
  EXPECT_EQ(bucket.WaitFor(10, 0), 10);
  EXPECT_EQ(bucket.WaitFor(10, 4 * kSecond), 6);
  EXPECT_EQ(bucket.WaitFor(10, 10 * kSecond), 0);
  EXPECT_EQ(bucket.SecondsUntilFull(10 * kSecond), 50);
  EXPECT_EQ(bucket.level(1000 * kSecond), 60);
}

TEST(MinuteBucketTest, WhatIsOwedIsWaitedFor) {
  MinuteBucket bucket(60, 0);
  bucket.Take(90);
  EXPECT_EQ(bucket.WaitFor(1, 0), 31);
  bucket.Take(-30);
  EXPECT_EQ(bucket.WaitFor(1, 0), 1);
}

TEST(MinuteBucketTest, AShareLetsAWholeRequestThroughOnceItIsFull) {
  MinuteBucket bucket(600, 0);
  bucket.SetShare(60);
  EXPECT_EQ(bucket.WaitFor(300, 0), 0);
  bucket.Take(300);
  EXPECT_EQ(bucket.WaitFor(60, 0), 300);  // 240 are owed
}

TEST(WorkMeterTest, TokensAreTakenInAdvanceAndGivenBack) {
  WorkMeter meter("key", {.tokens_per_minute = 600}, 0);
  const Work work = WorkOf(1, 100, 400);
  EXPECT_FALSE(meter.EnterWork(work, 0).has_value());
  const auto refused = meter.EnterWork(work, 0);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->http_status, 429);
  EXPECT_EQ(refused->retry_after_s, 40);  // 100 of 500 are there
  // The answer was short.
  meter.LeaveWork(work, 150, 0);
  EXPECT_EQ(meter.TokenRate(0).left, 450);
  EXPECT_EQ(meter.EnterWork(work, 0)->retry_after_s, 5);
  EXPECT_FALSE(meter.EnterWork(work, 5 * kSecond).has_value());
}

TEST(WorkMeterTest, RetryAfterIsTrue) {
  WorkMeter meter("key", {.tokens_per_minute = 700}, 0);
  EXPECT_FALSE(meter.EnterWork(WorkOf(1, 650, 0), 0).has_value());
  const Work work = WorkOf(1, 333, 0);
  const int64_t wait_s = meter.EnterWork(work, 0)->retry_after_s;
  EXPECT_TRUE(meter.EnterWork(work, (wait_s - 1) * kSecond).has_value());
  EXPECT_FALSE(meter.EnterWork(work, wait_s * kSecond).has_value());
}

TEST(WorkMeterTest, WithoutMaxTokensWhatWasDrawnIsOwed) {
  WorkMeter meter("key", {.tokens_per_minute = 600}, 0);
  const Work work = WorkOf(1, 10, 0);
  EXPECT_FALSE(meter.EnterWork(work, 0).has_value());
  meter.LeaveWork(work, 910, 0);
  EXPECT_EQ(meter.EnterWork(work, 0)->retry_after_s, 32);  // 310 are owed, 10 wanted
}

TEST(WorkMeterTest, WhatCanNeverBeIsA400) {
  WorkMeter meter("tenant", {.tokens_per_minute = 600, .sequences_concurrent_max = 4}, 0);
  const auto tokens = meter.EnterWork(WorkOf(1, 300, 301), 0);
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ(tokens->http_status, 400);
  EXPECT_EQ(tokens->retry_after_s, 0);
  EXPECT_NE(tokens->message.find("this tenant has in a minute (600)"), std::string::npos);
  EXPECT_EQ(meter.EnterWork(WorkOf(5, 5, 5), 0)->http_status, 400);
}

TEST(WorkMeterTest, SequencesAreCountedNotRequests) {
  WorkMeter meter("key", {.sequences_concurrent_max = 4}, 0);
  const Work three = WorkOf(3, 3, 0), one = WorkOf(1, 1, 0);
  EXPECT_FALSE(meter.EnterWork(three, 0).has_value());
  EXPECT_EQ(meter.EnterWork(three, 0)->http_status, 429);
  EXPECT_FALSE(meter.EnterWork(one, 0).has_value());
  meter.LeaveWork(three, 3, 0);
  EXPECT_FALSE(meter.EnterWork(three, 0).has_value());
}

// Four places, each of an answer of eight seconds: one becomes free every two.
TEST(WorkMeterTest, WhoFindsNoPlaceHearsWhenOneWillBeFree) {
  for (const bool counts_requests : {true, false}) {
    const WorkLimits limits = counts_requests ? WorkLimits{.requests_concurrent_max = 4}
                                              : WorkLimits{.sequences_concurrent_max = 4};
    WorkMeter meter("key", limits, 0);
    const Work work = WorkOf(1, 1, 1);
    const auto enter = [&](int64_t now_ns) {
      return counts_requests ? meter.EnterRequest(now_ns) : meter.EnterWork(work, now_ns);
    };
    int64_t now_ns = 0;
    for (int i = 0; i < 40; ++i) {
      now_ns += 2 * kSecond;
      if (i >= 4 && counts_requests) meter.LeaveRequest(now_ns);
      if (i >= 4 && !counts_requests) meter.LeaveWork(work, 1, now_ns);
      ASSERT_FALSE(enter(now_ns).has_value());
    }
    const auto first = enter(now_ns);
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(first->http_status, 429);
    EXPECT_NEAR(first->retry_after_s, 2, 1);
    EXPECT_NEAR(enter(now_ns)->retry_after_s, 4, 1) << "behind the first";
  }
}

TEST(WorkMeterTest, OtherLimitsHoldForWhatWasUsed) {
  WorkMeter meter("key", {.requests_per_minute = 10}, 0);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(meter.CountRequest(0).has_value());
  meter.SetLimits({.requests_per_minute = 20});
  EXPECT_EQ(meter.CountRequest(0)->retry_after_s, 3);
  meter.SetLimits({});
  EXPECT_FALSE(meter.CountRequest(0).has_value());
}

TEST(MeterLeaseTest, GivesBackWhatItHolds) {
  const auto key = std::make_shared<WorkMeter>("key", WorkLimits{.tokens_per_minute = 100}, 0);
  const auto tenant =
      std::make_shared<WorkMeter>("tenant", WorkLimits{.tokens_per_minute = 200}, 0);
  const Work work = WorkOf(1, 10, 80);
  ManualClock clock;
  {
    ASSERT_FALSE(key->EnterWork(work, 0).has_value());
    ASSERT_FALSE(tenant->EnterWork(work, 0).has_value());
    MeterLease lease(key, tenant, clock, work);
    MeterLease moved = std::move(lease);
    moved.SetTokens(15);
  }
  EXPECT_EQ(key->TokenRate(0).left, 85);
  EXPECT_EQ(tenant->TokenRate(0).left, 185);
}

TEST(RateLimitHeadersTest, TellWhateverIsTighter) {
  WorkMeter key("key", {.requests_per_minute = 60, .tokens_per_minute = 600}, 0);
  WorkMeter tenant("tenant", {.tokens_per_minute = 500}, 0);
  ASSERT_FALSE(key.CountRequest(0).has_value());
  ASSERT_FALSE(tenant.EnterWork(WorkOf(1, 100, 0), 0).has_value());
  const auto list = RateLimitHeaders(key, tenant, 0);
  const std::map<std::string, std::string> headers(list.begin(), list.end());
  const std::map<std::string, std::string> wanted = {
      {"x-ratelimit-limit-requests", "60"},    {"x-ratelimit-remaining-requests", "59"},
      {"x-ratelimit-reset-requests", "1s"},    {"x-ratelimit-limit-tokens", "500"},
      {"x-ratelimit-remaining-tokens", "400"}, {"x-ratelimit-reset-tokens", "12s"}};
  EXPECT_EQ(headers, wanted);
  WorkMeter free("key", {}, 0);
  EXPECT_TRUE(RateLimitHeaders(free, free, 0).empty());
}

}  // namespace
}  // namespace graft
