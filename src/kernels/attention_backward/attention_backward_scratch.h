// How much memory a thread of AttentionBackward needs: keys and values of one head transposed, and
// a row's scores, their gradients and what a cap takes of those. Plain arithmetic.
#pragma once

#include <cstdint>

namespace graft {

// Positions are filled up to whole vectors of the widest instruction set.
constexpr int64_t AttentionBackwardPositions(int64_t positions) {
  return (positions + 15) / 16 * 16;
}

constexpr int64_t AttentionBackwardThreadFloats(int64_t positions, int64_t head_dim) {
  return AttentionBackwardPositions(positions) * (2 * head_dim + 3);
}

}  // namespace graft
