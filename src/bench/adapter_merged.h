// Suite merged of `graft-bench adapters`: S-LoRA's Figure 7. Main thread.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "bench/adapter_bench.h"

namespace graft {

Result<OrderedJson> RunMerged(AdapterBench& bench);

}  // namespace graft
