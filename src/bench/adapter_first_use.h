// Suite first-use of `graft-bench adapters`: adapters that lie in folders and were never asked for,
// by one request alone and by many at once, before and after their hashes are remembered. Main
// thread.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "bench/adapter_bench.h"

namespace graft {

Result<OrderedJson> RunFirstUse(AdapterBench& bench);

}  // namespace graft
