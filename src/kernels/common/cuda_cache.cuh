// How long the second-level cache should keep what a copy reads: a step streams gigabytes through
// its 50 MB, and what is read once must not drive out what every layer reads again - activations,
// page tables, code. As Hopper's copies take it.
#pragma once

#include <cstdint>

namespace graft {

inline constexpr uint64_t kCacheNormal = 0x1000000000000000;
inline constexpr uint64_t kCacheFirstOut = 0x12f0000000000000;
inline constexpr uint64_t kCacheLastOut = 0x14f0000000000000;

}  // namespace graft
