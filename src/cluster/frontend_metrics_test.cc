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
  RunnerView view;
  view.address = "one:1";
  view.is_up = true;
  view.num_in_flight = 3;
  view.adapters_max = 16;
  view.load.requests_waiting = 5;
  view.load.figures = {.pages_free = 10, .pages_adapters = 7, .step_decode_rows = 4};
  counted_.SetRunner(view);
  EXPECT_TRUE(Shows("graft_runner_up{runner=\"one:1\"} 1"));
  EXPECT_TRUE(Shows("graft_runner_requests_in_flight{runner=\"one:1\"} 3"));
  EXPECT_TRUE(Shows("graft_runner_requests_waiting{runner=\"one:1\"} 5"));
  EXPECT_TRUE(Shows("graft_runner_adapters_max{runner=\"one:1\"} 16"));
  EXPECT_TRUE(Shows("graft_runner_pages{runner=\"one:1\",state=\"free\"} 10"));
  EXPECT_TRUE(Shows("graft_runner_pages{runner=\"one:1\",state=\"adapters\"} 7"));
  EXPECT_TRUE(Shows("graft_runner_step_rows{kind=\"decode\",runner=\"one:1\"} 4"));
  view.is_up = false;
  counted_.SetRunner(view);
  EXPECT_TRUE(Shows("graft_runner_up{runner=\"one:1\"} 0"));
  EXPECT_TRUE(Shows("graft_runner_pages{runner=\"one:1\",state=\"free\"} 0"));
}

TEST_F(FrontendMetricsTest, CountsOnWhereARunnerBeginsAnew) {
  RunnerView view;
  view.address = "one:1";
  view.is_up = true;
  view.load.figures.output_tokens = 100;
  counted_.SetRunner(view);
  view.load.figures.output_tokens = 120;
  counted_.SetRunner(view);
  EXPECT_TRUE(Shows("graft_runner_output_tokens_total{runner=\"one:1\"} 120"));
  view.load.figures.output_tokens = 30;
  counted_.SetRunner(view);
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

TEST_F(FrontendMetricsTest, ForgetsARunner) {
  RunnerView view;
  view.address = "one:1";
  counted_.SetRunner(view);
  view.address = "two:1";
  counted_.SetRunner(view);
  counted_.ForgetRunner("one:1");
  EXPECT_EQ(metrics_.Render().find("one:1"), std::string::npos);
  EXPECT_TRUE(Shows("graft_runner_up{runner=\"two:1\"} 0"));
}

}  // namespace
}  // namespace frontend_metrics_test
}  // namespace graft
