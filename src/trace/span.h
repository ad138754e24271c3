// A span: one piece of work of a trace, as OpenTelemetry has it. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

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

}  // namespace graft
