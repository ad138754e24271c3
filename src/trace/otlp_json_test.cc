#include "trace/span.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace graft {
namespace {

TEST(OtlpJsonTest, IsWhatCollectorsTake) {
  Span span{.name = "decode",
            .context = {.trace_id = std::string(32, 'a'), .span_id = std::string(16, 'b')},
            .parent_id = std::string(16, 'c'),
            .begin_ns = 5,
            .end_ns = 7,
            .attributes = {{"text", std::string("\"odd\" \xff")}, {"number", int64_t{1} << 60}},
            .error = "gone"};
  const Span root{.name = "root", .kind = SpanKind::kServer};
  const std::vector<Span> spans = {span, root};
  const Json json =
      ParseJson(OtlpJson({{"service.name", "graft"}}, spans, 1'700'000'000'000'000'000)).value();
  const Json& one = json["resourceSpans"][0];
  EXPECT_EQ(one["resource"]["attributes"],
            Json::parse(R"([{"key": "service.name", "value": {"stringValue": "graft"}}])"));
  const Json& list = one["scopeSpans"][0]["spans"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["traceId"], std::string(32, 'a'));
  EXPECT_EQ(list[0]["spanId"], std::string(16, 'b'));
  EXPECT_EQ(list[0]["parentSpanId"], std::string(16, 'c'));
  EXPECT_EQ(list[0]["kind"], 1);
  EXPECT_EQ(list[0]["startTimeUnixNano"], "1700000000000000005");
  EXPECT_EQ(list[0]["endTimeUnixNano"], "1700000000000000007");
  EXPECT_EQ(list[0]["attributes"][0]["value"]["stringValue"], "\"odd\" \xef\xbf\xbd");
  EXPECT_EQ(list[0]["attributes"][1]["value"]["intValue"], "1152921504606846976");
  EXPECT_EQ(list[0]["status"], Json::parse(R"({"code": 2, "message": "gone"})"));
  EXPECT_EQ(list[1]["kind"], 2);
  EXPECT_FALSE(list[1].contains("parentSpanId"));
  EXPECT_FALSE(list[1].contains("status"));
}

}  // namespace
}  // namespace graft
