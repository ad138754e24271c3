#include "dashboard/vllm_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/metrics.h"

namespace graft {
namespace {

using ::testing::HasSubstr;

TEST(VllmMetricsTest, TellsOfAnEngineWhatItsOwnNamesTell) {
  Metrics metrics;
  for (const std::string reason : {"stop", "cancelled", "error"}) {
    metrics.Counter("graft_requests_finished_total", "", {{"reason", reason}}).Increment(3);
  }
  metrics.Gauge("graft_requests_running", "").Set(5);
  metrics.Gauge("graft_pages", "", {{"state", "free"}}).Set(2);
  metrics.Gauge("graft_pages", "", {{"state", "cached"}}).Set(1);
  metrics.Gauge("graft_pages", "", {{"state", "referenced"}}).Set(1);
  metrics.Gauge("graft_pages", "", {{"state", "adapters"}}).Set(7);
  const std::string page = Metrics::Render(VllmFamilies(metrics.Collect(), ModelsInFlight(), {}));
  EXPECT_THAT(page, HasSubstr("finished_reason=\"stop\"} 3"));
  EXPECT_THAT(page, HasSubstr("finished_reason=\"abort\"} 3"));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("error")));
  EXPECT_THAT(page, HasSubstr("vllm:num_requests_running{model_name=\"\",engine=\"0\"} 5"));
  EXPECT_THAT(page, HasSubstr("vllm:kv_cache_usage_perc{model_name=\"\",engine=\"0\"} 0.25"));
}

}  // namespace
}  // namespace graft
