// A server's slots with synthetic adapters in them. Main thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "runtime/runtime.h"

namespace graft {

// Fills all slots, ranks in turn. Returns the adapters' bytes, by slot.
Result<std::vector<int64_t>> PlaceSyntheticAdapters(const LoadedModel& model,
                                                    const std::vector<int>& ranks, uint64_t seed,
                                                    Runtime& runtime);

}  // namespace graft
