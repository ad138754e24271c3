#include "trace/span.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

RequestTimes WholeTimes() {
  return {.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
          .log_id = "req_1",
          .adapter_hash = "0123456789abcdef",
          .arrival_ns = 100,
          .load_begin_ns = 110,
          .load_end_ns = 150,
          .first_step_ns = 160,
          .first_token_ns = 200,
          .end_ns = 300,
          .prompt_tokens = 7,
          .cached_tokens = 3,
          .output_tokens = 9,
          .finish_reason = FinishReason::kLength};
}

std::vector<std::string> NamesOf(const std::vector<Span>& spans) {
  std::vector<std::string> names;
  for (const Span& span : spans) names.push_back(span.name);
  return names;
}

TEST(RequestSpansTest, FollowEachOther) {
  const std::vector<Span> spans = SpansOf(WholeTimes());
  ASSERT_EQ(NamesOf(spans),
            (std::vector<std::string>{"queue", "adapter load", "prefill", "decode"}));
  const std::vector<std::pair<int64_t, int64_t>> want = {
      {100, 160}, {110, 150}, {160, 200}, {200, 300}};
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(std::pair(spans[i].begin_ns, spans[i].end_ns), want[i]) << spans[i].name;
    EXPECT_EQ(spans[i].context.trace_id, "0af7651916cd43dd8448eb211c80319c");
    EXPECT_EQ(spans[i].parent_id, "b7ad6b7169203331");
    EXPECT_EQ(spans[i].error, "");
  }
  EXPECT_NE(spans[0].context.span_id, spans[1].context.span_id);
  EXPECT_EQ(spans[1].attributes.back(),
            (std::pair<std::string, Span::Value>("graft.adapter", "0123456789ab")));
  EXPECT_EQ(spans[3].attributes.back(),
            (std::pair<std::string, Span::Value>("graft.finish_reason", "length")));
}

TEST(RequestSpansTest, WhatNeverHappenedHasNone) {
  RequestTimes times = WholeTimes();
  times.load_end_ns = 90;  // it was there before the request came
  EXPECT_EQ(NamesOf(SpansOf(times)), (std::vector<std::string>{"queue", "prefill", "decode"}));
  times.first_token_ns = 0;
  times.status = InternalError("broken");
  EXPECT_EQ(NamesOf(SpansOf(times)), (std::vector<std::string>{"queue", "prefill"}));
  EXPECT_EQ(SpansOf(times).back().end_ns, 300);
  EXPECT_EQ(SpansOf(times).back().error, "broken");
  times.first_step_ns = 0;
  EXPECT_EQ(NamesOf(SpansOf(times)), (std::vector<std::string>{"queue"}));
}

TEST(RequestSpansTest, WhoIsNotSampledHasNone) {
  RequestTimes times = WholeTimes();
  times.traceparent.back() = '0';
  EXPECT_TRUE(SpansOf(times).empty());
  times.traceparent = "";
  EXPECT_TRUE(SpansOf(times).empty());
}

}  // namespace
}  // namespace graft
