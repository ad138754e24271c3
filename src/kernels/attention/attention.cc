#include "kernels/attention/attention.h"

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "kernels/attention/attention_tile.h"
#include "kernels/common/cpu_isa.h"
#include "tensor/device_traits.h"

namespace graft {

GRAFT_OP(Attention, AttentionArgs)

AttentionTileCursor::AttentionTileCursor(const AttentionArgs& args) : args_(args) {
  const int32_t group = args.num_heads / args.layout.num_kv_heads;
  num_head_parts_ = (group + kTileQueries - 1) / kTileQueries;
  tile_heads_ = (group + num_head_parts_ - 1) / num_head_parts_;
  tile_rows_ = kTileQueries / tile_heads_;
}

int64_t AttentionTileCursor::NumTiles(int32_t sequence) const {
  const int64_t num_rows = args_.row_begin[sequence + 1] - args_.row_begin[sequence];
  return (num_rows + tile_rows_ - 1) / tile_rows_ * args_.layout.num_kv_heads * num_head_parts_;
}

bool AttentionTileCursor::Seek(int64_t tile_idx, AttentionTile* tile) {
  while (sequence_ < args_.num_sequences && tile_idx >= sequence_tile_ + NumTiles(sequence_)) {
    sequence_tile_ += NumTiles(sequence_++);
  }
  if (sequence_ == args_.num_sequences) return false;
  const int32_t num_kv_heads = args_.layout.num_kv_heads;
  const int32_t group = args_.num_heads / num_kv_heads;
  const int32_t num_rows = args_.row_begin[sequence_ + 1] - args_.row_begin[sequence_];
  const int32_t last_row_tile = (num_rows - 1) / tile_rows_;
  const auto idx = static_cast<int32_t>(tile_idx - sequence_tile_);
  const int32_t head_part = idx % num_head_parts_;
  const int32_t first_head = head_part * tile_heads_;
  const int32_t first_row = (last_row_tile - idx / num_head_parts_ / num_kv_heads) * tile_rows_;
  tile->sequence = sequence_;
  tile->kv_head = idx / num_head_parts_ % num_kv_heads;
  tile->head_begin = tile->kv_head * group + first_head;
  tile->num_heads = first_head + tile_heads_ < group ? tile_heads_ : group - first_head;
  tile->row_begin = args_.row_begin[sequence_] + first_row;
  tile->num_rows = first_row + tile_rows_ < num_rows ? tile_rows_ : num_rows - first_row;
  tile->position = args_.kv_tokens[sequence_] - num_rows + first_row;
  return true;
}

bool AttentionWantsThreads(const AttentionArgs& args) {
  // Multiply-adds of about ten microseconds.
  constexpr int64_t kForkSteps = int64_t{1} << 18;
  int64_t pairs = 0;  // of a row and a key
  for (int32_t s = 0; s < args.num_sequences; ++s) {
    pairs += int64_t{args.row_begin[s + 1] - args.row_begin[s]} * args.kv_tokens[s];
  }
  return pairs * 2 * args.num_heads * args.layout.head_dim >= kForkSteps;
}

namespace {

void CheckShapes(const AttentionArgs& args) {
  const KvLayout& layout = args.layout;
  CHECK_GE(args.num_sequences, 0);
  CHECK(layout.num_kv_heads > 0 && layout.page_tokens > 0);
  CHECK(layout.head_dim > 0 && layout.head_dim <= kAttentionHeadDimMax)
      << "head_dim " << layout.head_dim << ", at most " << kAttentionHeadDimMax;
  CHECK(args.num_heads > 0 && args.num_heads % layout.num_kv_heads == 0)
      << args.num_heads << " heads over " << layout.num_kv_heads << " key heads";
  CHECK(args.layer >= 0 && args.layer < layout.num_layers)
      << "layer " << args.layer << " of " << layout.num_layers;
  CHECK_GE(args.window, 0);
  CHECK(args.num_given >= 0 && args.num_given <= args.num_sequences);
  CHECK_GE(args.score_cap, 0.0f);
  CHECK_GE(args.q_stride, int64_t{args.num_heads} * layout.head_dim);
}

// First position that the row at `position` sees; window 0: all.
int32_t FirstVisible(int32_t position, int32_t window) {
  return window > 0 ? std::max(position - window + 1, 0) : 0;
}

// Pages before the window may be gone, so their ids are not looked at.
void CheckSequence(const AttentionArgs& args, int32_t sequence) {
  const int32_t num_rows = args.row_begin[sequence + 1] - args.row_begin[sequence];
  const int32_t num_pages = args.page_begin[sequence + 1] - args.page_begin[sequence];
  const int32_t kv_tokens = args.kv_tokens[sequence];
  const int32_t page_tokens = args.layout.page_tokens;
  CHECK_GE(num_rows, 0) << "sequence " << sequence;
  if (num_rows == 0) return;
  CHECK_GE(kv_tokens, num_rows) << "sequence " << sequence << ": a row sees at least itself";
  CHECK_GE(int64_t{num_pages} * page_tokens, kv_tokens) << "sequence " << sequence;
  const int32_t first_visible = FirstVisible(kv_tokens - num_rows, args.window);
  const int32_t* pages = args.pages + args.page_begin[sequence];
  for (int32_t i = first_visible / page_tokens; i <= (kv_tokens - 1) / page_tokens; ++i) {
    CHECK_GE(pages[i], 0) << "page " << i << " of sequence " << sequence;
  }
}

bool NoRows(const AttentionArgs& args, const Device& device) {
  if (!device.is_cpu()) return args.rows_max == 0;
  return args.row_begin[args.num_sequences] == args.row_begin[0];
}

}  // namespace

void Attention(const AttentionArgs& args, Stream& stream) {
  CheckShapes(args);
  if (args.num_sequences == 0) return;
  CHECK(args.page_begin != nullptr && args.row_begin != nullptr && args.kv_tokens != nullptr);
  if (NoRows(args, stream.device)) return;
  CHECK(args.pool != nullptr && args.pages != nullptr);
  CHECK(args.q != nullptr && args.out != nullptr);
  if (stream.device.is_cpu()) {
    for (int32_t s = 0; s < args.num_sequences; ++s) CheckSequence(args, s);
  }
  AttentionOnDevice(args, stream);
}

bool AttentionTellsGivenRows(const KvLayout& layout, const Device& device) {
  const DeviceTraits& traits = TraitsOf(device);
  const int32_t head_dim = layout.head_dim;
  if (!traits.has_hopper_code) {
    return traits.shared_bytes_max >= kAttentionSharedBytes && layout.dtype != DType::kF32 &&
           head_dim % 8 == 0;
  }
  const bool has_shape = head_dim == 64 || head_dim == 128 || head_dim == 256 ||
                         (head_dim > 64 && head_dim <= 96 && head_dim % 8 == 0);
  // Tiles of 64 or 128 positions are whole pages or parts of one.
  const int32_t page = layout.page_tokens;
  const bool has_pages = page == 8 || page == 16 || page == 32 || page == 64 || page % 128 == 0;
  return layout.dtype != DType::kF32 && has_shape && has_pages;
}

int64_t AttentionSplitsMax(int32_t num_sequences, int32_t kv_tokens_max) {
  return int64_t{num_sequences} *
         ((kv_tokens_max + kAttentionSplitTokens - 1) / kAttentionSplitTokens);
}

void ListAttentionSplits(std::span<const int32_t> row_begin, std::span<const int32_t> page_begin,
                         std::span<const int32_t> kv_tokens, int32_t window,
                         std::vector<AttentionSplit>& splits) {
  splits.clear();
  for (size_t i = 0; i < kv_tokens.size(); ++i) {
    if (row_begin[i + 1] - row_begin[i] != 1) continue;
    const int32_t position = kv_tokens[i] - 1;
    const int32_t first_visible = FirstVisible(position, window);
    const int32_t first = first_visible / kAttentionSplitTokens;
    const int32_t last = position / kAttentionSplitTokens;
    for (int32_t index = first; index <= last; ++index) {
      const int32_t begin = std::max(first_visible, index * kAttentionSplitTokens);
      const int32_t end = std::min(position + 1, (index + 1) * kAttentionSplitTokens);
      splits.push_back({.sequence = static_cast<int32_t>(i),
                        .row = row_begin[i],
                        .position = position,
                        .page_begin = page_begin[i],
                        .index = index,
                        .num_splits = last - first + 1,
                        .tile_begin = begin / kAttentionTileTokens,
                        .tile_end = (end - 1) / kAttentionTileTokens + 1});
    }
  }
  std::ranges::stable_sort(splits, std::ranges::greater{}, [](const AttentionSplit& split) {
    return split.tile_end - split.tile_begin;
  });
}

int64_t AttentionScratchBytes(const KvLayout& layout, int32_t num_heads, int32_t num_sequences,
                              int32_t kv_tokens_max, const Device& device) {
  if (device.is_cpu()) return 0;
  const int64_t floats =
      AttentionSplitsMax(num_sequences, kv_tokens_max) * num_heads * (layout.head_dim + 2);
  return (kAttentionCounterFloats + floats) * int64_t{sizeof(float)};
}

}  // namespace graft
