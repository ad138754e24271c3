// `graft adapters verify --census FILE`: which adapters of a census could be served, a line each.
// Main thread.
#pragma once

#include <string>

#include "base/status.h"

namespace graft {

// Prints a verdict for each line of the file (adapters/adapter_census.h). kFailedPrecondition where
// one of them is refused.
Status VerifyCensus(const std::string& path);

}  // namespace graft
