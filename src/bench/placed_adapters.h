// A server's slots with synthetic adapters in them. Main thread.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "base/status.h"
#include "model/cut_adapter.h"
#include "runtime/runtime.h"

namespace graft {

struct PlacedAdapters {
  std::vector<int64_t> bytes;  // by slot
  // What the slots point to, where both sides are cut (RuntimeOptions::cuts_both_sides).
  std::list<CutAdapter> cuts;
};

// Fills all slots, ranks in turn. Where adapters are cut on both sides, a few are cut again and
// again, so that each slot has rows of its own.
Result<PlacedAdapters> PlaceSyntheticAdapters(const LoadedModel& model,
                                              const std::vector<int>& ranks, uint64_t seed,
                                              bool cuts_both_sides, Runtime& runtime);

}  // namespace graft
