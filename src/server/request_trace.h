// A request's span at the HTTP server, of which those of its runner are children. Pure functions;
// any thread.
#pragma once

#include <optional>
#include <string>

#include "server/request_log.h"
#include "trace/span.h"

namespace graft {

struct RequestTrace {
  TraceContext context;   // of the server's span
  std::string parent_id;  // the client's; "": the trace begins here
};

// Goes on with the client's trace, or begins one. Nothing where the client says that its trace is
// not sampled.
std::optional<RequestTrace> BeginRequestTrace(const std::string& traceparent);

// Once the request has ended; times are of the steady clock.
Span SpanOfRequest(const RequestTrace& trace, const RequestRecord& record, int64_t begin_ns,
                   int64_t end_ns);

}  // namespace graft
