// Suite cold-starts of `graft-bench adapters`: CaraServe's Figures 3 (left) and 10 to 14. Main
// thread.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "bench/adapter_bench.h"

namespace graft {

Result<OrderedJson> RunColdStarts(AdapterBench& bench);

}  // namespace graft
