#include "dashboard/dashboard.h"

#include <gtest/gtest.h>

#include <regex>

#include "base/json.h"
#include "dashboard/dashboard_pages.h"
#include "jobs/learning_jobs.h"
#include "jobs/sqlite_learning_store.h"
#include "request/fake_catalog.h"

namespace graft {
namespace {

class DashboardTest : public testing::Test {
 protected:
  std::string Page() { return Metrics::Render(dashboard_.Scrape()); }
  Json Data(uint64_t since = 0) { return ParseJson(dashboard_.DataJson(since)).value(); }

  Metrics metrics_;
  FakeCatalog catalog_;
  Dashboard dashboard_{{.metrics = metrics_, .catalog = catalog_, .base_model = "demo"}};
};

TEST_F(DashboardTest, ShowsTheSnapshotThatWasScraped) {
  prometheus::Gauge& waiting = metrics_.Gauge("graft_requests_waiting", "help");
  waiting.Set(5);
  const std::string page = Page();
  waiting.Set(6);
  const Json data = Data();
  EXPECT_NE(page.find("graft_snapshot_number 1\n"), std::string::npos) << page;
  EXPECT_NE(page.find("graft_requests_waiting 5\n"), std::string::npos);
  EXPECT_EQ(data["snapshot"], 1);
  EXPECT_EQ(data["series"]["graft_requests_waiting"], Json::parse("[[{}, 5]]"));
  EXPECT_EQ(data["series"]["graft_snapshot_number"], Json::parse("[[{}, 1]]"));
  EXPECT_NE(Page().find("graft_snapshot_number 2\n"), std::string::npos);
  EXPECT_EQ(Data()["series"]["graft_requests_waiting"], Json::parse("[[{}, 6]]"));
}

TEST_F(DashboardTest, CountsAdaptersByWhereTheyAre) {
  dashboard_.AddPoint(1000);
  std::map<std::string, double> counts;
  const Json data = Data();
  for (const Json& series : data["series"]["graft_adapters"]) {
    counts[series[0]["state"]] = series[1];
  }
  EXPECT_EQ(counts["resident"], 1);
  EXPECT_EQ(counts["host"], 2);
  EXPECT_EQ(counts["folder"], 0);
  ASSERT_TRUE(catalog_.Load({.name = "new", .path = "good/new"}).ok());
  dashboard_.AddPoint(10'999);
  EXPECT_NE(Page().find("graft_adapters{state=\"host\"} 2\n"), std::string::npos);
  dashboard_.AddPoint(11'000);
  EXPECT_NE(Page().find("graft_adapters{state=\"host\"} 3\n"), std::string::npos);
}

TEST_F(DashboardTest, ListsTheMostPopularAdapters) {
  const auto count = [&](const std::string& name, double requests) {
    metrics_.Counter("graft_adapter_requests_total", "help", {{"adapter", name}})
        .Increment(requests);
  };
  for (int i = 0; i < 60; ++i) count("a" + std::to_string(i), 1);
  count("austen", 7);
  count("base", 9);
  count("an \"odd\"\\one\n", 8);
  metrics_.Counter("graft_adapter_output_tokens_total", "help", {{"adapter", "austen"}})
      .Increment(70);
  const Json adapters = Data()["adapters"];
  ASSERT_EQ(adapters.size(), 50u);
  EXPECT_EQ(adapters[0]["name"], "base");
  EXPECT_FALSE(adapters[0].contains("state")) << "it is no adapter";
  EXPECT_EQ(adapters[1]["name"], "an \"odd\"\\one\n");
  EXPECT_EQ(adapters[2]["name"], "austen");
  EXPECT_EQ(adapters[2]["output_tokens"], 70);
  EXPECT_EQ(adapters[2]["state"], "resident");
}

TEST_F(DashboardTest, AFrontendKnowsHoldersByItsPlacements) {
  Metrics metrics;
  Dashboard frontend({.metrics = metrics,
                      .catalog = catalog_,
                      .base_model = "demo",
                      .num_holders = [](const std::string& hash) {
                        return hash == FakeCatalog().Find("doyle")->hash ? 2 : 0;
                      }});
  for (const char* const name : {"austen", "doyle"}) {
    metrics.Counter("graft_adapter_requests_total", "help", {{"adapter", name}}).Increment();
  }
  const Json adapters = ParseJson(frontend.DataJson(0)).value()["adapters"];
  ASSERT_EQ(adapters.size(), 2u);
  EXPECT_EQ(adapters[0]["state"], "host");
  EXPECT_EQ(adapters[0]["holders"], 0);
  EXPECT_EQ(adapters[1]["state"], "resident");
  EXPECT_EQ(adapters[1]["holders"], 2);
}

TEST_F(DashboardTest, ShowsTheJobsOfAllTenants) {
  const auto store = *SqliteLearningStore::Open(":memory:");
  LearningJobs jobs(*store, {.base_model = "demo"});
  const auto create = [&jobs](const std::string& tenant) {
    const LearningFile file = *jobs.Upload(tenant, "a.txt", "fine-tune", "words", 0);
    return *jobs.Create({.tenant = tenant, .training_file = file.id, .suffix = "mine"});
  };
  const LearningJob queued = create("a");
  LearningJob running = create("b");
  running.status = JobStatus::kRunning;
  ASSERT_TRUE(store->Update(running).ok());
  const std::string told = R"({"step": 3, "total_steps": 40, "train_loss": 1.5})";
  ASSERT_TRUE(store->AddEvent(running.id, {.message = "Step", .data = told}).ok());
  Metrics metrics;
  Dashboard server(
      {.metrics = metrics, .catalog = catalog_, .base_model = "demo", .learning = &jobs});
  EXPECT_FALSE(ParseJson(server.DataJson(0))->contains("jobs")) << "none was read so far";
  server.AddPoint(1000);
  const std::string page = Metrics::Render(server.Scrape());
  EXPECT_NE(page.find("graft_learning_jobs{status=\"running\"} 1\n"), std::string::npos) << page;
  EXPECT_NE(page.find("graft_learning_jobs{status=\"queued\"} 1\n"), std::string::npos) << page;
  EXPECT_NE(page.find("graft_learning_jobs{status=\"failed\"} 0\n"), std::string::npos) << page;
  const Json data = ParseJson(server.DataJson(0)).value();
  ASSERT_EQ(data["jobs"].size(), 2u);
  EXPECT_EQ(data["jobs"][0]["id"], running.id);
  EXPECT_EQ(data["jobs"][0]["name"], LearnedName(running));
  EXPECT_EQ(data["jobs"][0]["status"], "running");
  EXPECT_EQ(data["jobs"][0]["total_steps"], 40);
  EXPECT_EQ(data["jobs"][0]["loss"], 1.5);
  EXPECT_EQ(data["jobs"][1]["tenant"], "a");
  EXPECT_EQ(data["jobs"][1]["step"], nullptr);
  EXPECT_EQ(data["history"]["columns"]["jobs_running"], Json::parse("[1]"));
  EXPECT_FALSE(Data().contains("jobs")) << "a server without";
}

TEST_F(DashboardTest, GivesLatenciesOfAllTimeAndTheHistory) {
  prometheus::Histogram& seconds =
      metrics_.Histogram("graft_time_to_first_token_seconds", "help", {1.0, 2.0});
  seconds.Observe(0.5);
  dashboard_.AddPoint(1000);
  seconds.Observe(1.5);
  dashboard_.AddPoint(3000);
  seconds.Observe(1.5);
  Page();
  const Json data = Data(1);
  EXPECT_EQ(data["latencies"]["first_token"]["all"]["count"], 3);
  EXPECT_EQ(data["latencies"]["first_token"]["recent"]["count"], 2);
  EXPECT_EQ(data["latencies"]["next_token"]["all"]["p50"], nullptr);
  EXPECT_EQ(data["history"]["next"], 2);
  EXPECT_EQ(data["history"]["columns"]["requests"], Json::parse("[0.5]"));
}

TEST(DashboardPagesTest, ReadsTheNumberOfAQuery) {
  EXPECT_EQ(SinceIn("since=17"), 17u);
  EXPECT_EQ(SinceIn(""), 0u);
  EXPECT_EQ(SinceIn("since=x"), 0u);
  EXPECT_EQ(SinceIn("since=99999999999999999999999"), 0u);
  EXPECT_EQ(SinceIn("other=3"), 0u);
}

TEST(DashboardPagesTest, EveryFileThatThePageLoadsIsThere) {
  const std::string page = DashboardFile("dashboard.html").body;
  const std::regex file(R"re((?:src|href)="([^"]*)")re");
  int num_files = 0;
  for (std::sregex_iterator it(page.begin(), page.end(), file), end; it != end; ++it) {
    const std::string name = (*it)[1];
    if (name == "data:,") continue;
    ASSERT_TRUE(name.starts_with("dashboard/")) << name << " is fetched from elsewhere";
    EXPECT_TRUE(IsDashboardFile(name.substr(10))) << name;
    ++num_files;
  }
  EXPECT_GE(num_files, 4);
  EXPECT_EQ(page.find("<style"), std::string::npos) << "the policy forbids it";
  EXPECT_EQ(page.find(" style="), std::string::npos) << "the policy forbids it";
  EXPECT_FALSE(IsDashboardFile("dashboard.html"));
  EXPECT_FALSE(IsDashboardFile("../main.cc"));
}

}  // namespace
}  // namespace graft
