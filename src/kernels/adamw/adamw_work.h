// How a GPU shares out the sum of a gradient's squares. Plain data.
#pragma once

namespace graft {

// Thread blocks of an adapter, each with a sum of its own.
inline constexpr int kAdamWParts = 512;

}  // namespace graft
