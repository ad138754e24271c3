// Spans as OTLP/HTTP's JSON, which every collector takes beside protobuf and which needs no
// library: the message ExportTraceServiceRequest by protobuf's JSON rules, with ids in hexadecimal
// as OTLP asks. Pure function; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trace/span.h"

namespace graft {

// Which process the spans are of: "service.name" and the like.
using TraceResource = std::vector<std::pair<std::string, std::string>>;

// `unix_offset_ns`: what is added to the steady clock's times.
std::string OtlpJson(const TraceResource& resource, std::span<const Span> spans,
                     int64_t unix_offset_ns);

}  // namespace graft
