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

// A machine that is away, hangs or does not have what it is asked for gives no verdict. Without a
// verdict the answer is that of a machine that was reached, else the first one. After `patience_ms`
// without an answer the next machine is asked, too. `nobody`: the answer if `asks` is empty.
Result<AdapterInfo> AskInTurns(const std::vector<AdapterAsk>& asks, int64_t patience_ms,
                               Status nobody);

}  // namespace graft
