// Milliseconds, as options give them, and a clock's nanoseconds.
#pragma once

#include <concepts>
#include <cstdint>

namespace graft {

constexpr int64_t MsToNs(std::integral auto ms) { return static_cast<int64_t>(ms) * 1'000'000; }
constexpr int64_t MsToNs(std::floating_point auto ms) { return static_cast<int64_t>(ms * 1e6); }
constexpr double NsToMs(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

}  // namespace graft
