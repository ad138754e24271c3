// The suite `stall` of `graft-bench adapters`. Main thread.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "bench/adapter_bench.h"

namespace graft {

// Measures what loads take beside a full batch that decodes. Adapters of each rank are loaded one
// after the other, for requests that find no place in the batch. Reports how long a load takes
// (CaraServe's Figure 3), and how much longer the steps of the others take meanwhile.
Result<OrderedJson> RunStall(AdapterBench& bench);

}  // namespace graft
