// How attention is cut into work: a tile is up to kTileQueries query vectors (some rows times some
// heads of one group) of one sequence, which read the same keys and values. The tiles of a launch
// are numbered, so that threads take them from one counter; inside a sequence the later rows, which
// see more keys, come first. How rows fall into tiles never changes their results.
#pragma once

#include <cstdint>

#include "kernels/attention/attention.h"

namespace graft {

inline constexpr int32_t kTileQueries = 64;
// A GPU cuts positions here, counted from 0, into parts with softmaxes of their own.
inline constexpr int32_t kAttentionSplitTokens = 512;
// It cuts these into what is multiplied at once.
inline constexpr int32_t kAttentionTileTokens = 64;
// The shared memory of a block that a GPU's kernels of tensor cores need at least.
inline constexpr int32_t kAttentionSharedBytes = 99 << 10;
// Counters in front of the scratch.
inline constexpr int64_t kAttentionCounterFloats = 64;

struct AttentionTile {
  int32_t sequence = 0;
  int32_t kv_head = 0;
  int32_t head_begin = 0;  // among all query heads
  int32_t num_heads = 0;
  int32_t row_begin = 0;  // in q and out
  int32_t num_rows = 0;
  int32_t position = 0;  // of the first row
};

// Finds tiles by number, numbers ascending. One per thread.
class AttentionTileCursor {
 public:
  explicit AttentionTileCursor(const AttentionArgs& args);
  // False: there are no more.
  bool Seek(int64_t tile_idx, AttentionTile* tile);

 private:
  int64_t NumTiles(int32_t sequence) const;

  const AttentionArgs& args_;
  int32_t tile_heads_;      // heads of one tile
  int32_t num_head_parts_;  // tiles across one group of heads
  int32_t tile_rows_;
  int32_t sequence_ = 0;
  int64_t sequence_tile_ = 0;  // number of sequence_'s first tile
};

// Whether the launch is large enough to pay for a fork-join.
bool AttentionWantsThreads(const AttentionArgs& args);

}  // namespace graft
