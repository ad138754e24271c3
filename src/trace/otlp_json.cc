#include "trace/span.h"

#include "base/json.h"

namespace graft {
namespace {

// Numbers of 64 bits are strings in protobuf's JSON.
Json OtlpValue(const Span::Value& value) {
  if (const auto* const number = std::get_if<int64_t>(&value)) {
    return {{"intValue", std::to_string(*number)}};
  }
  return {{"stringValue", std::get<std::string>(value)}};
}

Json OtlpAttribute(const std::string& key, const Span::Value& value) {
  return {{"key", key}, {"value", OtlpValue(value)}};
}

Json OtlpSpan(const Span& span, int64_t unix_offset_ns) {
  constexpr int kStatusError = 2;
  Json json = {{"traceId", span.context.trace_id},
               {"spanId", span.context.span_id},
               {"name", span.name},
               {"kind", static_cast<int>(span.kind)},
               {"startTimeUnixNano", std::to_string(span.begin_ns + unix_offset_ns)},
               {"endTimeUnixNano", std::to_string(span.end_ns + unix_offset_ns)},
               {"flags", 1}};
  if (!span.parent_id.empty()) json["parentSpanId"] = span.parent_id;
  Json attributes = Json::array();
  for (const auto& [key, value] : span.attributes) attributes.push_back(OtlpAttribute(key, value));
  json["attributes"] = std::move(attributes);
  if (!span.error.empty()) json["status"] = {{"code", kStatusError}, {"message", span.error}};
  return json;
}

}  // namespace

std::string OtlpJson(const TraceResource& resource, std::span<const Span> spans,
                     int64_t unix_offset_ns) {
  Json attributes = Json::array();
  for (const auto& [key, value] : resource) attributes.push_back(OtlpAttribute(key, value));
  Json list = Json::array();
  for (const Span& span : spans) list.push_back(OtlpSpan(span, unix_offset_ns));
  const Json scope = {{"scope", {{"name", "graft"}, {"version", GRAFT_VERSION}}},
                      {"spans", std::move(list)}};
  const Json one = {{"resource", {{"attributes", std::move(attributes)}}},
                    {"scopeSpans", Json::array({scope})}};
  return DumpJson({{"resourceSpans", Json::array({one})}});
}

}  // namespace graft
