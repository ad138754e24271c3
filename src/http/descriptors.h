// Files and sockets that this process may have open. Every connection is one; what is left must
// do for the files of adapters, keys and certificates. Functions of the process; any thread.
#pragma once

#include <cstdint>

#include "base/status.h"

namespace graft {

// Kept free of connections.
inline constexpr int64_t kDescriptorsReserved = 64;

// Raises the soft limit as far as it goes, and gives what it is now.
int64_t RaiseDescriptorLimit();

// Descriptors that are open now.
int64_t CountDescriptors();

// How many connections of `wanted` have room below `limit` beside `num_open` descriptors and the
// reserve. kResourceExhausted if none has.
Result<int32_t> ConnectionsThatFit(int32_t wanted, int64_t limit, int64_t num_open);

}  // namespace graft
