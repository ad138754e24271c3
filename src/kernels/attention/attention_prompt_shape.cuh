// How prompt attention lays out a block's shared memory and numbers its work.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_work.cuh"

namespace graft::attention {

inline constexpr int kPromptThreads = 3 * 128;
inline constexpr int kPromptQueries = 128;
inline constexpr int kConsumerWarps = 8;
inline constexpr int kQueryWarps = 2;
// Each lane of a warp that brings queries asks for pieces of kPieceRuns runs of four numbers. The
// warp's ring in shared memory has room for kPieces: two are on their way while one is rounded.
inline constexpr int kPieceRuns = 8;
inline constexpr int kPieces = 3;
inline constexpr int kStagingBytes = kPieces * kPieceRuns * 32 * 16;
// Heads are worked on side by side if their keys and values together fit into so much of L2.
inline constexpr int kCacheBytes = 24 << 20;

// The next item is drawn this many tiles before the end of the running one, because its queries
// take a few tiles to come.
inline constexpr int kTilesToDraw = 8;

struct PromptItem {
  int sequence;  // below 0: there are no more
  int kv_head;
  int row_begin;    // in q and out
  int num_queries;  // of the sequence and key head: rows times group
  int first_query;
  int position;   // of the sequence's first row
  int kv_tokens;  // of the sequence
  int page_begin;
  int visible_begin;  // first position that a query of the block sees
  int tile_begin;
  int tile_end;
};

// Numbers of barriers in shared memory, 8 bytes each.
template <typename Shape>
struct PromptBarriers {
  static constexpr int kKeysFull = 0;
  static constexpr int kKeysFree = kKeysFull + Shape::kStages;
  static constexpr int kValuesFull = kKeysFree + Shape::kStages;
  static constexpr int kValuesFree = kValuesFull + Shape::kStages;
  static constexpr int kValuesCome = kValuesFree + Shape::kStages;  // of a tile with gaps
  static constexpr int kQueriesFull = kValuesCome + 1;
  static constexpr int kQueriesFree = kQueriesFull + Shape::kQueryStages;
  static constexpr int kItemFull = kQueriesFree + Shape::kQueryStages;
  static constexpr int kItemFree = kItemFull + 2;
  static constexpr int kDraw = kItemFree + 2;  // the next item
  static constexpr int kCount = kDraw + 1;
};

// How keys, values and queries of a head size lie in shared memory. kDimOf: dimensions that are
// multiplied. Zeros fill up smaller heads.
template <typename TOf, int kDimOf>
struct PromptShape {
  using T = TOf;
  static constexpr DType kType = DTypeOf<T>();
  static constexpr int kDim = kDimOf;
  static constexpr int kAtoms = (kDim + 63) / 64;  // of 64 dimensions
  // Heads of exactly so many dimensions: one box of the copy engine has all of them. Otherwise a
  // box has an atom, with zeros behind the head's last dimension.
  static constexpr bool kIsWhole = kDim % 64 == 0;
  static constexpr int kTile = kDim > 128 ? 64 : 128;  // positions, counted from 0
  static constexpr int kStages = kDim > 64 ? 2 : 4;
  static constexpr int kQueryStages = kDim > 128 ? 1 : 2;
  static constexpr int kGroupBytes = kIsWhole ? kAtoms * 1024 : 1024;  // eight positions
  static constexpr int kAtomBytes = kIsWhole ? 1024 : kTile * 128;
  static constexpr int kTileBytes = kTile * kAtoms * 128;
  static constexpr int kQueryAtomBytes = 64 * 128;
  static constexpr int kGroupQueryBytes = kAtoms * kQueryAtomBytes;  // of a warpgroup
  static constexpr int kQueryBytes = 2 * kGroupQueryBytes;
  static constexpr int kSharedBytes =
      kQueryStages * kQueryBytes + 2 * kStages * kTileBytes + kQueryWarps * kStagingBytes;

  // The offset of 16 bytes in a tile: the dimensions from 8 chunk on.
  static __device__ __forceinline__ uint32_t Offset(int position, int chunk) {
    return static_cast<uint32_t>(position / 8 * kGroupBytes + chunk / 8 * kAtomBytes +
                                 position % 8 * 128 + ((chunk % 8) ^ (position % 8)) * 16);
  }
  static __device__ __forceinline__ uint32_t QueryOffset(int query, int chunk) {
    return static_cast<uint32_t>(query / 64 * kGroupQueryBytes + chunk / 8 * kQueryAtomBytes +
                                 query % 64 * 128 + ((chunk % 8) ^ (query % 8)) * 16);
  }
};

}  // namespace graft::attention
