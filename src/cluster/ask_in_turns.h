// Asks several machines one question, when any of them may hang. They are asked in turns. The next
// one is asked also when the one before takes too long, and the first verdict counts. Blocks; any
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

// A machine that cannot be reached, hangs, or does not have what it is asked for gives no verdict.
// Without a verdict, returns the answer of a machine that was reached, else the first answer. After
// `patience_ms` without an answer the next machine is asked, too. `nobody` is returned if `asks` is
// empty.
Result<AdapterInfo> AskInTurns(const std::vector<AdapterAsk>& asks, int64_t patience_ms,
                               Status nobody);

}  // namespace graft
