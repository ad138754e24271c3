#include "executor/decode_graphs.h"

#include <algorithm>
#include <array>
#include <new>
#include <tuple>

#include "base/check.h"
#include "kernels/common/launch_ledger.h"

namespace graft {
namespace {

int32_t NumTiles(std::span<const LoraSegment> segments) {
  int32_t tiles = 0;
  for (const LoraSegment& segment : segments) {
    tiles += (segment.row_end - segment.row_begin + kLoraTileRows - 1) / kLoraTileRows;
  }
  return tiles;
}

}  // namespace

DecodeGraphs::DecodeGraphs(Transformer& transformer, int32_t sequences_max, const LoraTable& lora,
                           const MergedWeights* merged)
    : transformer_(transformer), lora_(lora), merged_(merged), sizes_(BatchSizes(sequences_max)) {}

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
                               bool merged) {
  constexpr int64_t kLaunchBytes = 4 << 10;
  constexpr int64_t kLaunchesOfLayer = 16;
  constexpr int64_t kScopes = 3;
  int64_t num_bounds = 0;
  for (int32_t bound = RankBound(1); rank_max > 0 && bound <= RankBound(rank_max); bound *= 2) {
    ++num_bounds;
  }
  const int64_t num_graphs = static_cast<int64_t>(BatchSizes(sequences_max).size()) *
                             (1 + (merged ? 1 : 0) + num_bounds * kScopes);
  return num_graphs * (num_layers + 1) * kLaunchesOfLayer * kLaunchBytes;
}

BatchUpload::Padding DecodeGraphs::PaddingFor(int32_t num_rows, int32_t rank_bound) const {
  return {num_rows, transformer_.limits().context_tokens_max, rank_bound > 0};
}

void DecodeGraphs::Record(int32_t rank_max, Stream& stream, const Progress& progress) {
  std::vector<Key> keys;
  for (const int32_t size : sizes_) {
    keys.push_back({.num_rows = size});
    if (merged_ != nullptr) keys.push_back({.num_rows = size, .merged = true});
    if (lora_.matrices == nullptr) continue;
    for (int32_t bound = RankBound(1); bound <= RankBound(rank_max); bound *= 2) {
      const LoraBesideScope least = transformer_.ChooseBesideScope(size, bound, size);
      const LoraBesideScope most = transformer_.ChooseBesideScope(size, bound, 1);
      for (const LoraBesideScope scope :
           {LoraBesideScope::kNone, LoraBesideScope::kMlp, LoraBesideScope::kAll}) {
        if (scope < least || scope > most) continue;
        keys.push_back({.num_rows = size, .rank_bound = bound, .lora_beside = scope});
      }
    }
  }
  int64_t done = 0;
  for (const Key& key : keys) {
    Find(key, stream);
    if (progress) progress(++done, static_cast<int64_t>(keys.size()));
  }
}

// Records a step whose rows all are padding, unless it was before.
CapturedGraph* DecodeGraphs::Find(const Key& key, Stream& stream) {
  const auto found = graphs_.find(key);
  if (found != graphs_.end()) return &found->second;
  constexpr std::array<int32_t, 1> kNoRows = {0};
  HostBatch empty;
  empty.row_begin = kNoRows;
  empty.page_begin = kNoRows;
  if (key.rank_bound > 0) {
    empty.lora = lora_;
    empty.lora.rank_max = key.rank_bound;
  }
  empty.lora_beside = key.lora_beside;
  if (key.merged) empty.merged = merged_;
  const DeviceBatch put = transformer_.Put(empty, PaddingFor(key.num_rows, key.rank_bound), stream);
  transformer_.Run(put, stream);  // what is chosen at first use is chosen now
  Synchronize(stream);
  try {
    return &graphs_
                .emplace(
                    std::piecewise_construct, std::forward_as_tuple(key),
                    std::forward_as_tuple(stream, [&] { logits_ = transformer_.Run(put, stream); }))
                .first->second;
  } catch (const std::bad_alloc&) {
    LaunchLedger::OfThread() = {};
    return nullptr;
  }
}

int32_t DecodeGraphs::PaddedRows(int32_t num_rows) const {
  const auto size = std::lower_bound(sizes_.begin(), sizes_.end(), num_rows);
  CHECK(size != sizes_.end()) << num_rows << " rows, recorded up to " << sizes_.back();
  return *size;
}

const float* DecodeGraphs::Run(const HostBatch& batch, Stream& stream) {
  const int32_t size = PaddedRows(static_cast<int32_t>(batch.tokens.size()));
  const int32_t rank_bound = batch.lora_segments.empty() ? 0 : RankBound(batch.lora.rank_max);
  CHECK(batch.merged == nullptr || batch.merged == merged_) << "other merged weights";
  const LoraBesideScope scope =
      transformer_.ChooseBesideScope(size, rank_bound, NumTiles(batch.lora_segments));
  const Key key{size, rank_bound, scope, batch.merged != nullptr};
  CapturedGraph* const graph = Find(key, stream);
  if (graph == nullptr) {
    HostBatch placed = batch;
    placed.lora_beside = scope;
    return transformer_.Run(transformer_.Put(placed, PaddingFor(size, rank_bound), stream), stream);
  }
  transformer_.Put(batch, PaddingFor(size, rank_bound), stream);
  graph->Launch(stream);
  return logits_;
}

}  // namespace graft
