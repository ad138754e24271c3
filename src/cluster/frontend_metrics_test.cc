#include "cluster/frontend_metrics.h"

#include <gtest/gtest.h>

namespace graft {
namespace frontend_metrics_test {
namespace {

class FrontendMetricsTest : public testing::Test {
 protected:
  bool Shows(const std::string& line) const {
    return metrics_.Render().find(line + "\n") != std::string::npos;
  }

  Metrics metrics_;
  FrontendMetrics counted_{metrics_, {}};
};

TEST_F(FrontendMetricsTest, ShowsWhatARunnerTells) {
  RemoteRunner runner;
  runner.address = "one:1";
  runner.is_up = true;
  runner.num_in_flight = 3;
  runner.facts.adapters_max = 16;
  runner.load.requests_waiting = 5;
  runner.load.figures = {.pages_free = 10, .pages_adapters = 7, .step_decode_rows = 4};
  counted_.SetRunner(runner);
  EXPECT_TRUE(Shows("graft_runner_up{runner=\"one:1\"} 1"));
  EXPECT_TRUE(Shows("graft_runner_requests_in_flight{runner=\"one:1\"} 3"));
  EXPECT_TRUE(Shows("graft_runner_requests_waiting{runner=\"one:1\"} 5"));
  EXPECT_TRUE(Shows("graft_runner_adapters_max{runner=\"one:1\"} 16"));
  EXPECT_TRUE(Shows("graft_runner_pages{runner=\"one:1\",state=\"free\"} 10"));
  EXPECT_TRUE(Shows("graft_runner_pages{runner=\"one:1\",state=\"adapters\"} 7"));
  EXPECT_TRUE(Shows("graft_runner_step_rows{kind=\"decode\",runner=\"one:1\"} 4"));
  runner.is_up = false;
  counted_.SetRunner(runner);
  EXPECT_TRUE(Shows("graft_runner_up{runner=\"one:1\"} 0"));
  EXPECT_TRUE(Shows("graft_runner_pages{runner=\"one:1\",state=\"free\"} 0"));
}

TEST_F(FrontendMetricsTest, CountsOnWhereARunnerBeginsAnew) {
  RemoteRunner runner;
  runner.address = "one:1";
  runner.is_up = runner.has_told = true;
  runner.load.figures.output_tokens = 100;
  counted_.SetRunner(runner);
  runner.load.figures.output_tokens = 120;
  counted_.SetRunner(runner);
  EXPECT_TRUE(Shows("graft_runner_output_tokens_total{runner=\"one:1\"} 120"));
  runner.load.figures.output_tokens = 30;
  counted_.SetRunner(runner);
  EXPECT_TRUE(Shows("graft_runner_output_tokens_total{runner=\"one:1\"} 150"));
}

TEST_F(FrontendMetricsTest, CountsPlacementsAndMoves) {
  counted_.Placed("one:1", FrontendMetrics::Meets::kCold);
  counted_.Placed("one:1", FrontendMetrics::Meets::kCold);
  counted_.Moved(FrontendMetrics::Move::kDrained);
  EXPECT_TRUE(Shows("graft_placements_total{adapter=\"cold\",runner=\"one:1\"} 2"));
  EXPECT_TRUE(Shows("graft_placements_total{adapter=\"base\",runner=\"one:1\"} 0"));
  EXPECT_TRUE(Shows("graft_migrations_total{reason=\"drained\"} 1"));
  EXPECT_TRUE(Shows("graft_migrations_total{reason=\"died\"} 0"));
}

// It was silent, or its link broke: between its coming up and its first word it has no figures.
TEST_F(FrontendMetricsTest, ARunnerThatComesBackIsNotCountedAgain) {
  for (const uint64_t instance : {0, 7}) {
    RemoteRunner runner;
    runner.address = "of " + std::to_string(instance) + ":1";
    const std::string line = "graft_runner_output_tokens_total{runner=\"" + runner.address + "\"} ";
    runner.facts.instance = instance;
    runner.is_up = runner.has_told = true;
    runner.load.figures.output_tokens = 100;
    counted_.SetRunner(runner);
    for (int i = 0; i < 3; ++i) {
      runner.is_up = false;
      counted_.SetRunner(runner);
      runner.is_up = true;
      runner.has_told = false;
      runner.load = {};
      counted_.SetRunner(runner);
      runner.has_told = true;
      runner.load.figures.output_tokens = 100;
      counted_.SetRunner(runner);
    }
    EXPECT_TRUE(Shows(line + "100"));
  }
}

TEST_F(FrontendMetricsTest, AnotherProcessAtTheAddressIsCountedWhole) {
  RemoteRunner runner;
  runner.address = "one:1";
  runner.is_up = runner.has_told = true;
  runner.facts.instance = 1;
  runner.load.figures.output_tokens = 100;
  counted_.SetRunner(runner);
  runner.facts.instance = 2;
  runner.load.figures.output_tokens = 130;  // more than the former one had
  counted_.SetRunner(runner);
  EXPECT_TRUE(Shows("graft_runner_output_tokens_total{runner=\"one:1\"} 230"));
}

TEST_F(FrontendMetricsTest, ARunnerThatLeavesTakesNothingOutOfTheSums) {
  RemoteRunner runner;
  runner.address = "one:1";
  runner.is_up = runner.has_told = true;
  runner.facts.instance = 1;
  runner.load.figures.output_tokens = 100;
  counted_.SetRunner(runner);
  counted_.Placed("one:1", FrontendMetrics::Meets::kBase);
  counted_.ForgetRunner("one:1");
  EXPECT_EQ(metrics_.Render().find("graft_runner_up{runner=\"one:1\"}"), std::string::npos);
  EXPECT_TRUE(Shows("graft_runner_output_tokens_total{runner=\"one:1\"} 100"));
  EXPECT_TRUE(Shows("graft_placements_total{adapter=\"base\",runner=\"one:1\"} 1"));
  runner.load.figures.output_tokens = 120;  // it comes back
  counted_.SetRunner(runner);
  EXPECT_TRUE(Shows("graft_runner_output_tokens_total{runner=\"one:1\"} 120"));
  EXPECT_TRUE(Shows("graft_runner_up{runner=\"one:1\"} 1"));
}

TEST_F(FrontendMetricsTest, SumsOverVeryManyThatHaveLeftStay) {
  constexpr int kNumRunners = 400;
  for (int i = 0; i < kNumRunners; ++i) {
    RemoteRunner runner;
    runner.address = "host:" + std::to_string(i + 1);
    runner.is_up = runner.has_told = true;
    runner.load.figures.output_tokens = 10;
    counted_.SetRunner(runner);
    counted_.ForgetRunner(runner.address);
  }
  const std::string page = metrics_.Render();
  double sum = 0;
  int num_series = 0;
  const std::string name = "\ngraft_runner_output_tokens_total{";
  for (size_t at = page.find(name); at != std::string::npos; at = page.find(name, at + 1)) {
    sum += std::stod(page.substr(page.find("} ", at) + 2));
    ++num_series;
  }
  EXPECT_EQ(sum, 10 * kNumRunners);
  EXPECT_LT(num_series, kNumRunners);
}

}  // namespace
}  // namespace frontend_metrics_test
}  // namespace graft
