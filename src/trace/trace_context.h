// Which trace a piece of work belongs to, as W3C's traceparent header says it. Pure functions; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace graft {

struct TraceContext {
  std::string trace_id;  // 32 hexadecimal digits in lower case
  std::string span_id;   // 16
  bool is_sampled = true;
};

// "00-TRACE-SPAN-FLAGS". Nothing where it is not of that form, or its ids are all zeros.
std::optional<TraceContext> ParseTraceparent(std::string_view traceparent);
std::string FormatTraceparent(const TraceContext& context);

// A span of a new trace.
TraceContext BeginTrace();
// Another span of the same trace.
TraceContext ChildOf(const TraceContext& parent);

}  // namespace graft
