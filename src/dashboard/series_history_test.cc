#include "dashboard/series_history.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace graft {
namespace series_history_test {
namespace {

class SeriesHistoryTest : public testing::Test {
 protected:
  void Add(SeriesHistory& history, int64_t unix_ms) { history.Add(metrics_.Collect(), unix_ms); }
  static Json JsonOf(const SeriesHistory& history, uint64_t since = 0) {
    std::string text;
    history.AppendJson(since, &text);
    return ParseJson(text).value();
  }

  Metrics metrics_;
};

TEST_F(SeriesHistoryTest, CountersAreRatesAndGaugesValues) {
  prometheus::Counter& tokens = metrics_.Counter("graft_output_tokens_total", "help");
  prometheus::Gauge& waiting = metrics_.Gauge("graft_requests_waiting", "help");
  SeriesHistory history(10);
  tokens.Increment(100);
  waiting.Set(3);
  Add(history, 1000);
  tokens.Increment(50);
  waiting.Set(4);
  Add(history, 3000);
  const Json json = JsonOf(history);
  EXPECT_EQ(json["next"], 2);
  EXPECT_EQ(json["times"], Json::parse("[1.0, 3.0]"));
  EXPECT_EQ(json["columns"]["output_tokens"], Json::parse("[null, 25]"));
  EXPECT_EQ(json["columns"]["waiting"], Json::parse("[3, 4]"));
  EXPECT_EQ(json["columns"]["moved"], Json::parse("[null, null]")) << "there is no such series";
}

TEST_F(SeriesHistoryTest, RunnersAreSummedAndThoseThatGoTakeNothingAway) {
  prometheus::Counter& one =
      metrics_.Counter("graft_runner_output_tokens_total", "help", {{"runner", "1"}});
  prometheus::Counter& two =
      metrics_.Counter("graft_runner_output_tokens_total", "help", {{"runner", "2"}});
  metrics_.Counter("graft_output_tokens_total", "help").Increment(1e6);
  SeriesHistory history(10);
  one.Increment(70);
  two.Increment(30);
  Add(history, 0);
  one.Increment(6);
  two.Increment(4);
  Add(history, 2000);
  metrics_.RemoveCounter("graft_runner_output_tokens_total", one);
  Add(history, 4000);
  EXPECT_EQ(JsonOf(history)["columns"]["output_tokens"], Json::parse("[null, 5, 0]"));
}

TEST_F(SeriesHistoryTest, KeepsTheLastPointsAndGivesThoseAskedFor) {
  prometheus::Gauge& waiting = metrics_.Gauge("graft_requests_waiting", "help");
  SeriesHistory history(3);
  for (int point = 0; point < 7; ++point) {
    waiting.Set(point);
    Add(history, 1000 * point);
  }
  EXPECT_EQ(JsonOf(history)["columns"]["waiting"], Json::parse("[4, 5, 6]"));
  EXPECT_EQ(JsonOf(history)["first"], 4);
  EXPECT_EQ(JsonOf(history, 6)["columns"]["waiting"], Json::parse("[6]"));
  EXPECT_EQ(JsonOf(history, 7)["columns"]["waiting"], Json::array());
  EXPECT_EQ(JsonOf(history, 99)["columns"]["waiting"], Json::parse("[4, 5, 6]"))
      << "a page that knew another server";
}

TEST_F(SeriesHistoryTest, QuantilesAreThoseOfTheInterval) {
  prometheus::Histogram& seconds =
      metrics_.Histogram("graft_inter_token_seconds", "help", {1.0, 2.0, 4.0});
  SeriesHistory history(10);
  for (int i = 0; i < 100; ++i) seconds.Observe(0.5);
  Add(history, 0);
  for (int i = 0; i < 10; ++i) seconds.Observe(1.5);
  Add(history, 2000);
  Add(history, 4000);
  EXPECT_EQ(JsonOf(history)["columns"]["next_token_p50"], Json::parse("[null, 1.5, null]"));
  const BucketCounts recent = history.Recent(metrics_.Collect(), 1);
  EXPECT_EQ(recent.total(), 10);
  EXPECT_EQ(Quantile(recent, 0.99), 1.99);
  Add(history, 62'001);
  EXPECT_EQ(history.Recent(metrics_.Collect(), 1).total(), 0) << "a minute has passed";
}

TEST(SeriesSumsTest, QuantilesOfOddHistograms) {
  EXPECT_FALSE(Quantile({}, 0.5).has_value());
  EXPECT_FALSE(Quantile({{1, INFINITY}, {0, 0}}, 0.5).has_value());
  EXPECT_EQ(Quantile({{1, INFINITY}, {4, 4}}, 0.5), 0.5);
  EXPECT_EQ(Quantile({{1, 2, INFINITY}, {0, 0, 4}}, 0.5), 2) << "beyond the last bound";
  EXPECT_EQ(Quantile({{1, 2, INFINITY}, {2, 4, 4}}, 0.75), 1.5);
}

TEST(SeriesSumsTest, SumsByLabel) {
  Metrics metrics;
  metrics.Gauge("graft_pages", "help", {{"state", "free"}}).Set(3);
  metrics.Gauge("graft_pages", "help", {{"state", "cached"}}).Set(4);
  const Metrics::Families families = metrics.Collect();
  EXPECT_EQ(SumOf(families, {"pages"}), 7);
  EXPECT_EQ(SumOf(families, {"pages", "state", "free"}), 3);
  EXPECT_EQ(SumOf(families, {"pages", "state", "none"}), 0);
  EXPECT_FALSE(SumOf(families, {"page"}).has_value());
}

}  // namespace
}  // namespace series_history_test
}  // namespace graft
