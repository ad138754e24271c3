// A span: one piece of work of a trace, as OpenTelemetry has it. Plain data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "request/request_times.h"
#include "trace/trace_context.h"

namespace graft {

// OTLP's numbers.
enum class SpanKind : uint8_t { kInternal = 1, kServer = 2 };

struct Span {
  using Value = std::variant<std::string, int64_t>;

  std::string name;
  TraceContext context;
  std::string parent_id;  // "": the trace begins with it
  SpanKind kind = SpanKind::kInternal;
  int64_t begin_ns = 0;  // of the steady clock, as end_ns
  int64_t end_ns = 0;
  std::vector<std::pair<std::string, Value>> attributes;
  std::string error;  // "": it went well
};

// What an engine did for a request, as spans: queue, adapter load, prefill and decode, children of
// the span that the request came with. There are none without a traceparent, or if its trace is not
// sampled. Pure function; any thread.
std::vector<Span> SpansOf(const RequestTimes& times);

// Spans in the JSON form of OTLP/HTTP, which every collector accepts beside protobuf and which
// needs no library. It is the message ExportTraceServiceRequest by protobuf's JSON rules, with ids
// in hexadecimal as OTLP requires. Pure function; any thread. TraceResource says which process the
// spans are of: "service.name" and so on.
using TraceResource = std::vector<std::pair<std::string, std::string>>;

// `unix_offset_ns`: what is added to the steady clock's times.
std::string OtlpJson(const TraceResource& resource, std::span<const Span> spans,
                     int64_t unix_offset_ns);

}  // namespace graft
