#include "server/request_trace.h"

#include <utility>

namespace graft {

std::optional<RequestTrace> BeginRequestTrace(const std::string& traceparent) {
  const std::optional<TraceContext> client = ParseTraceparent(traceparent);
  if (!client.has_value()) return RequestTrace{.context = BeginTrace()};
  if (!client->is_sampled) return std::nullopt;
  return RequestTrace{.context = ChildOf(*client), .parent_id = client->span_id};
}

Span SpanOfRequest(const RequestTrace& trace, const RequestRecord& record, int64_t begin_ns,
                   int64_t end_ns) {
  constexpr int kServerFailure = 500;
  Span span{.name = record.method + " " + RouteName(record.route),
            .context = trace.context,
            .parent_id = trace.parent_id,
            .kind = SpanKind::kServer,
            .begin_ns = begin_ns,
            .end_ns = end_ns};
  span.attributes = {{"http.request.method", record.method},
                     {"http.route", std::string(RouteName(record.route))},
                     {"http.response.status_code", int64_t{record.status}},
                     {"graft.request_id", record.id}};
  if (!record.model.empty()) span.attributes.emplace_back("gen_ai.request.model", record.model);
  if (!record.tenant.empty()) span.attributes.emplace_back("graft.tenant", record.tenant);
  if (record.prompt_tokens >= 0) {
    span.attributes.emplace_back("gen_ai.usage.input_tokens", int64_t{record.prompt_tokens});
  }
  if (record.output_tokens >= 0) {
    span.attributes.emplace_back("gen_ai.usage.output_tokens", int64_t{record.output_tokens});
  }
  // A client's mistakes are no errors of the server's span.
  if (record.status >= kServerFailure || record.error_status >= kServerFailure) {
    span.error = record.error.empty() ? "the server failed" : record.error;
  }
  return span;
}

}  // namespace graft
