#include "server/request_trace.h"

#include <gtest/gtest.h>

#include <map>

namespace graft {
namespace request_trace_test {
namespace {

constexpr const char* kClient = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(RequestTraceTest, GoesOnWithTheClientsTrace) {
  const std::optional<RequestTrace> trace = BeginRequestTrace(kClient);
  ASSERT_TRUE(trace.has_value());
  EXPECT_EQ(trace->context.trace_id, "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(trace->parent_id, "b7ad6b7169203331");
  EXPECT_NE(trace->context.span_id, trace->parent_id);
  EXPECT_EQ(BeginRequestTrace("")->parent_id, "");
  std::string not_sampled = kClient;
  not_sampled.back() = '0';
  EXPECT_FALSE(BeginRequestTrace(not_sampled).has_value());
}

TEST(RequestTraceTest, SaysWhatTheRequestWas) {
  RequestRecord record{.id = "req_1",
                       .method = "POST",
                       .route = Route::kCompletions,
                       .status = 200,
                       .model = "austen",
                       .prompt_tokens = 3,
                       .output_tokens = 4};
  const RequestTrace trace = BeginRequestTrace(kClient).value();
  const Span span = SpanOfRequest(trace, record, 5, 9);
  EXPECT_EQ(span.name, "POST /v1/completions");
  EXPECT_EQ(span.kind, SpanKind::kServer);
  EXPECT_EQ(span.parent_id, trace.parent_id);
  EXPECT_EQ(span.begin_ns, 5);
  EXPECT_EQ(span.end_ns, 9);
  EXPECT_EQ(span.error, "");
  const std::map<std::string, Span::Value> attributes(span.attributes.begin(),
                                                      span.attributes.end());
  EXPECT_EQ(attributes.at("http.response.status_code"), Span::Value(int64_t{200}));
  EXPECT_EQ(attributes.at("gen_ai.request.model"), Span::Value("austen"));
  EXPECT_EQ(attributes.at("gen_ai.usage.output_tokens"), Span::Value(int64_t{4}));
  record.status = 404;
  record.error_status = 404;
  record.error = "no such model";
  EXPECT_EQ(SpanOfRequest(trace, record, 5, 9).error, "");
  record.error_status = 500;
  EXPECT_EQ(SpanOfRequest(trace, record, 5, 9).error, "no such model");
}

}  // namespace
}  // namespace request_trace_test
}  // namespace graft
