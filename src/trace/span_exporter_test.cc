#include "trace/span_exporter.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "trace/fake_collector.h"

namespace graft {
namespace span_exporter_test {
namespace {

Span SpanOf(const std::string& name) { return {.name = name, .context = BeginTrace()}; }

// The names of all spans in messages.
std::vector<std::string> NamesIn(const std::vector<std::string>& messages) {
  std::vector<std::string> names;
  for (const std::string& message : messages) {
    const Json json = ParseJson(message.substr(message.find("\r\n\r\n") + 4)).value();
    for (const Json& span : json["resourceSpans"][0]["scopeSpans"][0]["spans"]) {
      names.push_back(span["name"]);
    }
  }
  return names;
}

class SpanExporterTest : public testing::Test {
 protected:
  std::unique_ptr<SpanExporter> Start(SpanExporterOptions options = {}) {
    options.endpoint = collector_.url() + "/base/";
    options.interval = std::chrono::milliseconds(1);
    options.timeout = std::chrono::milliseconds(60'000);
    options.pause = std::chrono::milliseconds(1);
    options.pause_max = std::chrono::milliseconds(4);
    return SpanExporter::Start(options, metrics_).value();
  }
  double Count(const char* outcome) {
    return metrics_.Counter("graft_otlp_spans_total", "", {{"outcome", outcome}}).Value();
  }
  void WaitForCount(const char* outcome, double count) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (Count(outcome) < count && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(Count(outcome), count);
  }

  FakeCollector collector_;
  Metrics metrics_;
};

TEST_F(SpanExporterTest, SendsSpansAndRequestsTimes) {
  const auto exporter = Start();
  exporter->Add(SpanOf("one"));
  exporter->Add(RequestTimes{.traceparent = FormatTraceparent(BeginTrace()),
                             .arrival_ns = 1,
                             .first_step_ns = 2,
                             .first_token_ns = 3,
                             .end_ns = 4});
  WaitForCount("sent", 4);
  const std::vector<std::string> messages = collector_.WaitForMessages(1);
  EXPECT_TRUE(messages[0].starts_with("POST /base/v1/traces HTTP/1.1\r\n")) << messages[0];
  EXPECT_EQ(NamesIn(messages), (std::vector<std::string>{"one", "queue", "prefill", "decode"}));
}

TEST_F(SpanExporterTest, SendsInBatchesAndAtTheEnd) {
  {
    SpanExporterOptions options;
    options.batch_max = 10;
    const auto exporter = Start(options);
    for (int i = 0; i < 25; ++i) exporter->Add(SpanOf("span"));
  }
  EXPECT_EQ(Count("sent"), 25);
  const std::vector<std::string> messages = collector_.WaitForMessages(3);
  EXPECT_EQ(NamesIn(messages).size(), 25u);
  for (const std::string& message : messages) EXPECT_LE(NamesIn({message}).size(), 10u);
}

TEST_F(SpanExporterTest, CountsWhatACollectorDoesNotTakeAndGoesOn) {
  collector_.set_status(500);
  const auto exporter = Start();
  exporter->Add(SpanOf("lost"));
  WaitForCount("dropped", 1);
  collector_.set_status(0);
  exporter->Add(SpanOf("lost"));
  WaitForCount("dropped", 2);
  collector_.set_status(200);
  exporter->Add(SpanOf("taken"));
  WaitForCount("sent", 1);
  EXPECT_EQ(Count("dropped"), 2);
}

TEST_F(SpanExporterTest, DropsWhatTheQueueCannotHoldAndWaitsForNobody) {
  collector_.set_hold(true);
  SpanExporterOptions options;
  options.queue_max = 20;
  const auto exporter = Start(options);
  exporter->Add(SpanOf("first"));
  collector_.WaitForMessages(1);  // and it is not answered
  for (int i = 0; i < 50; ++i) exporter->Add(SpanOf("more"));
  EXPECT_EQ(Count("dropped"), 30);
  collector_.set_hold(false);
  WaitForCount("sent", 21);
}

TEST(SpanExporterOptionsTest, RefusesWhatIsNoEndpoint) {
  Metrics metrics;
  for (const char* const bad : {"https://collector:4318", "collector:4318", "http://"}) {
    SpanExporterOptions options;
    options.endpoint = bad;
    const Status status = SpanExporter::Start(options, metrics).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_NE(status.message().find("--otlp-endpoint"), std::string::npos) << bad;
  }
}

}  // namespace
}  // namespace span_exporter_test
}  // namespace graft
