// What an engine did for a request, as spans: queue, adapter load, prefill and decode, children of
// the span that the request came with. Pure function; any thread.
#pragma once

#include <vector>

#include "request/request_times.h"
#include "trace/span.h"

namespace graft {

// None where the traceparent is none, or its trace is not sampled.
std::vector<Span> SpansOf(const RequestTimes& times);

}  // namespace graft
