// Several machines that can answer one question, of which any may hang: they are asked in turns,
// the next one also when the former takes too long, and the first verdict counts. Blocks; any
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "request/adapter_catalog.h"

namespace graft {

struct AdapterAsk {
  std::function<Result<AdapterInfo>()> ask;  // blocks; on a thread of its own
  std::function<void()> cancel;              // any thread, also after the answer: `ask` ends soon
};

// A machine that is away, hangs or does not have what it is asked for gives no verdict. Where none
// does, the answer is that of one which looked, else of the first. `patience_ms`: before the next
// one is asked beside those that have not answered. `nobody`: the answer where there are none.
Result<AdapterInfo> AskInTurns(const std::vector<AdapterAsk>& asks, int64_t patience_ms,
                               Status nobody);

}  // namespace graft
