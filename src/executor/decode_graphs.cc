#include "executor/decode_graphs.h"

#include <algorithm>
#include <array>
#include <new>

#include "base/check.h"
#include "base/log.h"
#include "kernels/common/launch_ledger.h"

namespace graft {
namespace {

// Batches of so many rows and more are recorded for several bounds on LoRA's tiles: all rows, half
// as many, and so on.
constexpr int32_t kFewTilesRowsMin = 64;
constexpr int32_t kTilesBounds = 3;

int32_t NumTiles(std::span<const LoraSegment> segments) {
  int32_t tiles = 0;
  for (const LoraSegment& segment : segments) {
    tiles += (segment.row_end - segment.row_begin + kLoraTileRows - 1) / kLoraTileRows;
  }
  return tiles;
}

}  // namespace

DecodeGraphs::DecodeGraphs(Transformer& transformer, int32_t sequences_max,
                           int32_t draft_tokens_max, const LoraTable& lora)
    : transformer_(transformer),
      draft_tokens_max_(draft_tokens_max),
      lora_(lora),
      sizes_(BatchSizes(sequences_max)) {}

// Close together where a step's time grows with the batch, further apart where it is wide.
std::vector<int32_t> DecodeGraphs::BatchSizes(int32_t sequences_max) {
  std::vector<int32_t> sizes;
  int32_t size = 1;
  while (size < sequences_max) {
    sizes.push_back(size);
    size += size < 8 ? size : size < 64 ? 8 : size < 256 ? 32 : 128;
  }
  sizes.push_back(sequences_max);
  return sizes;
}

int32_t DecodeGraphs::RankBound(int32_t rank_max) {
  if (rank_max == 0) return 0;
  int32_t bound = 16;
  while (bound < rank_max) bound *= 2;
  return bound;
}

// A launch with its arguments: a bound, as the driver does not say.
int64_t DecodeGraphs::BytesFor(int32_t num_layers, int32_t sequences_max, int32_t rank_max,
                               bool drafts) {
  constexpr int64_t kLaunchBytes = 4 << 10;
  constexpr int64_t kLaunchesOfLayer = 24;
  constexpr int64_t kScopes = 3;
  int64_t num_bounds = 0;
  for (int32_t bound = RankBound(1); rank_max > 0 && bound <= RankBound(rank_max); bound *= 2) {
    ++num_bounds;
  }
  int64_t num_graphs = 0;
  for (const int32_t size : BatchSizes(sequences_max)) {
    const int64_t variants = size < kFewTilesRowsMin ? kScopes : kScopes + kTilesBounds - 1;
    num_graphs += 1 + num_bounds * (variants + 1);  // and one where adapters change the head
  }
  return num_graphs * (drafts ? 2 : 1) * (num_layers + 1) * kLaunchesOfLayer * kLaunchBytes;
}

// LoRA's launches have blocks for every tile of the bound. In a wide batch of few adapters most
// would find no rows, and what comes after them waits until all have been started.
int32_t DecodeGraphs::TilesBound(int32_t num_rows, int32_t num_tiles) {
  int32_t bound = num_rows;
  if (num_rows < kFewTilesRowsMin) return bound;
  for (int i = 1; i < kTilesBounds && (bound + 1) / 2 >= num_tiles; ++i) bound = (bound + 1) / 2;
  return bound;
}

DecodeGraphs::Key DecodeGraphs::KeyFor(int32_t num_rows, int32_t rank_bound,
                                       int32_t num_tiles) const {
  Key key{.num_rows = num_rows, .rank_bound = rank_bound};
  if (rank_bound == 0) return key;
  key.tiles_bound = TilesBound(num_rows, num_tiles);
  key.lora_beside = transformer_.ChooseBesideScope(num_rows, rank_bound, num_tiles);
  return key;
}

BatchUpload::Padding DecodeGraphs::PaddingFor(const Key& key) const {
  return {.num_rows = key.num_rows,
          .kv_tokens_max = transformer_.limits().context_tokens_max,
          .lora_segments = key.tiles_bound,
          .head_segments = key.head ? key.tiles_bound : 0,
          .sequence_rows_max = key.drafts ? 1 + draft_tokens_max_ : 1};
}

std::vector<DecodeGraphs::Key> DecodeGraphs::KeysFor(int32_t num_rows, int32_t rank_max) const {
  std::vector<Key> keys = {{.num_rows = num_rows}};
  if (lora_.matrices == nullptr) return keys;
  for (int32_t bound = RankBound(1); bound <= RankBound(rank_max); bound *= 2) {
    for (int32_t tiles = 1; tiles <= num_rows; ++tiles) {
      const Key key = KeyFor(num_rows, bound, tiles);
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

void DecodeGraphs::Record(int32_t rank_max, Stream& stream, const Progress& progress) {
  std::vector<Key> keys;
  for (const int32_t size : sizes_) {
    for (Key key : KeysFor(size, rank_max)) {
      keys.push_back(key);
      key.drafts = true;
      if (draft_tokens_max_ > 0 && size > 1) keys.push_back(key);
    }
  }
  int64_t done = 0;
  for (const Key& key : keys) {
    Find(key, stream);
    if (progress) progress(++done, static_cast<int64_t>(keys.size()));
  }
}

// Records a step of padding rows alone, unless it was recorded before.
CapturedGraph* DecodeGraphs::Find(const Key& key, Stream& stream) {
  const auto found = graphs_.find(key);
  if (found != graphs_.end()) return found->second.has_value() ? &*found->second : nullptr;
  constexpr std::array<int32_t, 1> kNoRows = {0};
  HostBatch empty;
  empty.row_begin = kNoRows;
  empty.page_begin = kNoRows;
  if (key.rank_bound > 0) {
    empty.lora = lora_;
    empty.lora.rank_max = key.rank_bound;
  }
  empty.lora_beside = key.lora_beside;
  const DeviceBatch put = transformer_.Put(empty, PaddingFor(key), stream);
  transformer_.Run(put, stream);  // what is chosen at first use is chosen now
  Synchronize(stream);
  std::optional<CapturedGraph>& graph = graphs_[key];
  try {
    graph.emplace(stream, [&] { logits_ = transformer_.Run(put, stream); });
    return &*graph;
  } catch (const std::bad_alloc& error) {
    LaunchLedger::OfThread() = {};
    LOG_WARN(
        "steps of {} rows are launched kernel by kernel, which is slower: no memory for their "
        "graph ({})",
        key.num_rows, error.what());
    return nullptr;
  }
}

int32_t DecodeGraphs::PaddedRows(int32_t num_rows) const {
  const auto size = std::lower_bound(sizes_.begin(), sizes_.end(), num_rows);
  CHECK(size != sizes_.end()) << num_rows << " rows, recorded up to " << sizes_.back();
  return *size;
}

bool DecodeGraphs::Covers(const HostBatch& batch) const {
  const size_t num_rows = batch.tokens.size();
  if (batch.num_given > 0 || batch.logits_rows.size() != num_rows ||
      num_rows > static_cast<size_t>(sizes_.back())) {
    return false;
  }
  for (size_t i = 0; i < batch.kv_tokens.size(); ++i) {
    if (batch.row_begin[i + 1] - batch.row_begin[i] > 1 + draft_tokens_max_) return false;
  }
  return true;
}

// Few batches have adapters of the head. They share one graph of a size and a bound on ranks, that
// of the most tiles, so that all that are ever recorded can be counted.
DecodeGraphs::Key DecodeGraphs::KeyFor(const HostBatch& batch) const {
  const int32_t size = PaddedRows(static_cast<int32_t>(batch.tokens.size()));
  const int32_t rank_bound = batch.lora_segments.empty() ? 0 : RankBound(batch.lora.rank_max);
  const bool head = !batch.head_segments.empty();
  Key key = KeyFor(size, rank_bound, head ? size : NumTiles(batch.lora_segments));
  key.drafts = batch.kv_tokens.size() < batch.tokens.size();
  key.head = head;
  // A row of logits for each row: the head's segments are among the rows' own.
  CHECK_LE(NumTiles(batch.head_segments), key.tiles_bound);
  return key;
}

const float* DecodeGraphs::Run(const HostBatch& batch, Stream& stream) {
  const Key key = KeyFor(batch);
  CapturedGraph* const graph = Find(key, stream);
  if (graph == nullptr) {
    HostBatch placed = batch;
    placed.lora_beside = key.lora_beside;
    return transformer_.Run(transformer_.Put(placed, PaddingFor(key), stream), stream);
  }
  transformer_.Put(batch, PaddingFor(key), stream);
  graph->Launch(stream);
  return logits_;
}

}  // namespace graft
