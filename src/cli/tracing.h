// Traces of requests for a collector: the option of every subcommand that serves, and what it
// starts.
#pragma once

#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/status.h"
#include "options/option.h"
#include "trace/span_exporter.h"

namespace graft {

Option OtlpEndpointRow(std::string& endpoint);

// `role`: what kind of process this is. Null where there is no endpoint.
Result<std::unique_ptr<SpanExporter>> StartTracing(const std::string& endpoint,
                                                   const std::string& role, Metrics& metrics);

}  // namespace graft
