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

// 128 queries each.
__device__ __forceinline__ int NumPromptBlocks(const Params& params, int sequence) {
  const int num_rows = params.args.row_begin[sequence + 1] - params.args.row_begin[sequence];
  return (num_rows * params.group + kPromptQueries - 1) / kPromptQueries;
}

// How a kernel walks over keys.
struct PromptWalk {
  int tile;             // positions
  int position_bytes;   // of a key and its value
  int64_t cache_bytes;  // of L2, for the heads that are worked on side by side
};

// The item of that number among a sequence's num_blocks blocks of all key heads.
__device__ __forceinline__ PromptItem PromptItemOf(const Params& params, int sequence,
                                                   int num_blocks, int in_sequence,
                                                   const PromptWalk& walk) {
  const AttentionArgs& args = params.args;
  const int num_heads = args.layout.num_kv_heads;
  PromptItem item;
  item.sequence = sequence;
  item.kv_tokens = args.kv_tokens[sequence];
  item.row_begin = args.row_begin[sequence];
  item.page_begin = args.page_begin[sequence];
  const int num_rows = args.row_begin[sequence + 1] - item.row_begin;
  // Some heads at a time, about as many each time. Each head's last block sees most, so it comes
  // first. A few heads left over would keep all others waiting for their first blocks.
  const int64_t head_bytes = int64_t{item.kv_tokens} * walk.position_bytes;
  const int heads =
      static_cast<int>(min(int64_t{num_heads}, max(int64_t{1}, walk.cache_bytes / head_bytes)));
  const int num_sections = (num_heads + heads - 1) / heads;
  const int section_idx = ((in_sequence / num_blocks + 1) * num_sections - 1) / num_heads;
  const int first_head = section_idx * num_heads / num_sections;
  const int section = (section_idx + 1) * num_heads / num_sections - first_head;
  const int in_heads = in_sequence - first_head * num_blocks;
  item.kv_head = first_head + in_heads % section;
  item.num_queries = num_rows * params.group;
  item.first_query = (num_blocks - 1 - in_heads / section) * kPromptQueries;
  item.position = item.kv_tokens - num_rows;
  const int last_query = min(item.first_query + kPromptQueries, item.num_queries) - 1;
  const int last_position = item.position + params.RowOf(last_query);
  item.visible_begin = FirstVisible(item.position + params.RowOf(item.first_query), params.window);
  item.tile_begin = item.visible_begin / walk.tile;
  item.tile_end = last_position / walk.tile + 1;
  return item;
}

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
