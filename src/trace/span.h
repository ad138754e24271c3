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
// the span that the request came with. Pure function; any thread.
// None where the traceparent is none, or its trace is not sampled.
std::vector<Span> SpansOf(const RequestTimes& times);

// Spans as OTLP/HTTP's JSON, which every collector takes beside protobuf and which needs no
// library: the message ExportTraceServiceRequest by protobuf's JSON rules, with ids in hexadecimal
// as OTLP asks. Pure function; any thread.
// Which process the spans are of: "service.name" and the like.
using TraceResource = std::vector<std::pair<std::string, std::string>>;

// `unix_offset_ns`: what is added to the steady clock's times.
std::string OtlpJson(const TraceResource& resource, std::span<const Span> spans,
                     int64_t unix_offset_ns);

}  // namespace graft
