#include "dashboard/tenant_series.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

class TenantSeriesTest : public testing::Test {
 protected:
  bool Has(const std::string& line) const {
    return metrics_.Render().find(line + "\n") != std::string::npos;
  }

  Metrics metrics_;
  TenantSeries series_{metrics_, 2};
};

TEST_F(TenantSeriesTest, CountsWhatEachTenantHad) {
  series_.RequestEnded("acme", 200, 10, 5);
  series_.RequestEnded("acme", 429, 0, 0);
  series_.RequestEnded("other", 200, 1, 1);
  EXPECT_TRUE(Has(R"(graft_tenant_requests_total{tenant="acme"} 2)")) << metrics_.Render();
  EXPECT_TRUE(Has(R"(graft_tenant_requests_limited_total{tenant="acme"} 1)"));
  EXPECT_TRUE(Has(R"(graft_tenant_prompt_tokens_total{tenant="acme"} 10)"));
  EXPECT_TRUE(Has(R"(graft_tenant_output_tokens_total{tenant="acme"} 5)"));
  EXPECT_TRUE(Has(R"(graft_tenant_output_tokens_total{tenant="other"} 1)"));
}

TEST_F(TenantSeriesTest, WhoAskedLastHasSeries) {
  for (const char* const tenant : {"a", "b", "a", "c"}) series_.RequestEnded(tenant, 200, 1, 1);
  EXPECT_TRUE(Has(R"(graft_tenant_requests_total{tenant="a"} 2)")) << metrics_.Render();
  EXPECT_TRUE(Has(R"(graft_tenant_requests_total{tenant="c"} 1)"));
  EXPECT_EQ(metrics_.Render().find(R"(tenant="b")"), std::string::npos);
  for (int i = 0; i < 1000; ++i) series_.RequestEnded(std::to_string(i), 200, 1, 1);
  EXPECT_TRUE(Has(R"(graft_tenant_requests_total{tenant="999"} 1)"));
  EXPECT_EQ(metrics_.Render().find(R"(tenant="997")"), std::string::npos);
}

TEST_F(TenantSeriesTest, WithoutKeysThereAreNone) {
  series_.RequestEnded("", 200, 1, 1);
  EXPECT_EQ(metrics_.Render().find("graft_tenant"), std::string::npos);
}

}  // namespace
}  // namespace graft
