// How long the second-level cache should keep what a copy reads, in the encoding of Hopper's
// copies. A step streams gigabytes through its 50 MB. What is read once must not drive out what
// every layer reads again: activations, page tables, code.
#pragma once

#include <cstdint>

namespace graft {

inline constexpr uint64_t kCacheNormal = 0x1000000000000000;
inline constexpr uint64_t kCacheFirstOut = 0x12f0000000000000;
inline constexpr uint64_t kCacheLastOut = 0x14f0000000000000;

}  // namespace graft
