#include "request/adapter_series.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

class AdapterSeriesTest : public testing::Test {
 protected:
  void Count(const std::string& key, int32_t content) {
    series_.Of(key, content)->requests->Increment();
  }
  // The value of graft_adapter_requests_total, or -1 if there is no such series.
  double Requests(const std::string& name) const {
    const std::string page = metrics_.Render();
    const std::string line = "graft_adapter_requests_total{adapter=\"" + name + "\"} ";
    const size_t at = page.find(line);
    return at == std::string::npos ? -1.0 : std::stod(page.substr(at + line.size()));
  }

  Metrics metrics_;
  AdapterSeries series_{metrics_, [](const std::string& key) { return key.substr(0, 1); }, 2};
};

TEST_F(AdapterSeriesTest, TheNamesUsedLastHaveSeries) {
  Count("", -1);
  Count("a1", 0);
  Count("b1", 1);
  Count("a1", 0);
  Count("c1", 2);  // takes b's place
  EXPECT_EQ(Requests("base"), 1);
  EXPECT_EQ(Requests("a"), 2);
  EXPECT_EQ(Requests("b"), -1);
  EXPECT_EQ(Requests("c"), 1);
  Count("b1", 1);
  EXPECT_EQ(Requests("a"), -1);
  EXPECT_EQ(Requests("b"), 1) << "it begins anew";
  EXPECT_EQ(metrics_.Render().find("graft_adapter_output_tokens_total{adapter=\"a\"}"),
            std::string::npos);
}

TEST_F(AdapterSeriesTest, WhatIsInUseStays) {
  const auto a = series_.Of("a1", 0);
  auto b = series_.Of("b1", 1);
  const auto other = series_.Of("c1", 2);
  other->requests->Increment();
  EXPECT_EQ(Requests("other"), 1) << "both names have requests in flight";
  EXPECT_EQ(series_.Of("d1", 3), other);
  series_.Forget(1);
  b->requests->Increment();
  EXPECT_EQ(Requests("b"), 1);
  b.reset();
  Count("c1", 2);
  EXPECT_EQ(Requests("b"), -1);
  EXPECT_EQ(Requests("c"), 1);
}

TEST_F(AdapterSeriesTest, AnUnloadedAdaptersSeriesGo) {
  Count("a1", 0);
  Count("a2", 1);  // loaded again under the same name
  series_.Forget(0);
  series_.Forget(0);
  EXPECT_EQ(Requests("a"), 2);
  series_.Forget(1);
  EXPECT_EQ(Requests("a"), -1);
  // From here on its id belongs to another content.
  Count("b1", 1);
  EXPECT_EQ(Requests("b"), 1);
  series_.Forget(77);
}

TEST_F(AdapterSeriesTest, AContentThatGoesByAnotherNameIsCountedThere) {
  Count("a1", 0);
  Count("b1", 0);
  series_.Forget(0);
  EXPECT_EQ(Requests("b"), -1);
  EXPECT_EQ(Requests("a"), 1) << "until its place is needed";
  Count("c1", 1);
  Count("d1", 2);
  EXPECT_EQ(Requests("a"), -1);
}

}  // namespace
}  // namespace graft
