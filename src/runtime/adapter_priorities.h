// --pin and --priority: which adapters stay longer in the host's memory.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace graft {

// The most, and its negative the least, that --priority takes.
inline constexpr int32_t kAdapterPriorityMax = 1000;

// Priorities by adapter name, from "NAME=N" and from `pins`, which have HostStore::kPinned. A name
// with two priorities is refused.
Result<std::map<std::string, int32_t>> ParseAdapterPriorities(
    const std::vector<std::string>& priorities, const std::vector<std::string>& pins);

// The flag that gave a name this priority, for errors.
std::string PriorityFlag(const std::string& name, int32_t priority);

}  // namespace graft
