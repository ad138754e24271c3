// Causal attention over paged keys and values, prefill chunks and decode rows in one launch, with
// grouped query heads, an optional sliding window and an optional cap on scores. Online softmax in
// float, keys taken in a fixed order, so that a row's result does not depend on its batch or on how
// its prompt was chunked.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/common/kv_layout.h"
#include "tensor/stream.h"

namespace graft {

// The largest head_dim of this and all other ops of heads, on every device: kernels hold a head in
// arrays and registers of that size. Loaders ask here what they may let in.
inline constexpr int32_t kAttentionHeadDimMax = 256;

// Some positions of a one-row sequence, with a softmax of their own: the unit of work of a GPU that
// decodes.
struct alignas(16) AttentionSplit {
  int32_t sequence;
  int32_t row;         // of q and out
  int32_t position;    // the row's own, which is the last that it sees
  int32_t page_begin;  // into pages
  int32_t index;       // among the sequence's splits, counted from position 0
  int32_t num_splits;  // that the row sees
  int32_t tile_begin;  // tiles of kAttentionTileTokens positions, counted from position 0, too
  int32_t tile_end;
};

// A GPU's kernel may read the arrays of integers, and the pool except the last position of each
// one-row sequence, while earlier kernels of the stream still run. So write these with copies, or
// in steps that were launched before. VirtualKv may write them in the same step, because it lets no
// later kernel start until it has written.
struct AttentionArgs {
  KvLayout layout;
  int32_t layer = 0;
  const void* pool = nullptr;           // layout.dtype, see KvLayout
  const int32_t* pages = nullptr;       // page ids of all sequences, concatenated
  const int32_t* page_begin = nullptr;  // [num_sequences + 1] into pages
  const int32_t* row_begin = nullptr;   // [num_sequences + 1] into the rows of q and out
  const int32_t* kv_tokens =
      nullptr;  // [num_sequences] positions visible to the sequence's last row
  int32_t num_sequences = 0;
  int32_t num_heads = 0;     // a multiple of layout.num_kv_heads
  const float* q = nullptr;  // [rows, num_heads, head_dim], rows q_stride elements apart
  int64_t q_stride = 0;
  void* out = nullptr;  // [rows, num_heads * head_dim] contiguous, of out_dtype
  DType out_dtype = DType::kF32;
  float scale = 0.0f;      // of scores: 1 / sqrt(head_dim), as most models have it
  float score_cap = 0.0f;  // 0: none; c: scaled scores s become c tanh(s / c)
  int32_t window = 0;      // 0: full; w: a row at position p sees (p - w, p]

  // For GPUs where AttentionTellsGivenRows: the last num_given sequences have rows that were given,
  // as a prompt's are. They take a kernel of their own, however few they are. The rows of all
  // others were drawn, even if they are computed again.
  int32_t num_given = 0;
  // For GPUs: what ListAttentionSplits made of the arrays without the last num_given sequences,
  // with this window, and how many splits these are. Room for AttentionSplitsMax.
  const AttentionSplit* splits = nullptr;
  const int32_t* num_splits = nullptr;  // [1]
  // For GPUs: bounds on what the arrays say, which are in the device's memory, so that the host
  // cannot look. They hold for this call and all replays of its launches. The CPU does not read
  // them.
  int32_t rows_max = 0;           // row_begin[num_sequences]
  int32_t sequence_rows_max = 0;  // rows of one sequence before the last num_given
  int32_t kv_tokens_max = 0;      // kv_tokens of one sequence
  // AttentionScratchBytes, zeroed before the first use and then used by this op alone, one launch
  // at a time.
  float* scratch = nullptr;
  // Set it if the next kernel takes a part of the card alone, as LoRA beside a product does.
  // Decoding then lets that kernel start only when all of attention has ended. Started earlier, it
  // would get the multiprocessors that are free first, and weights would stream 5 % slower until
  // the layer's end.
  bool next_starts_late = false;
};

// Whether the device has a kernel for given rows. Its results do not have the bits of drawn rows.
bool AttentionTellsGivenRows(const KvLayout& layout, const Device& device);

// The bytes of scratch that calls within these bounds need; 0 on the CPU.
int64_t AttentionScratchBytes(const KvLayout& layout, int32_t num_heads, int32_t num_sequences,
                              int32_t kv_tokens_max, const Device& device);

// Lists the splits of all one-row sequences, the longest first, so that warps or blocks that draw
// them in turn end together. Arrays as in AttentionArgs, in the host's memory.
void ListAttentionSplits(std::span<const int32_t> row_begin, std::span<const int32_t> page_begin,
                         std::span<const int32_t> kv_tokens, int32_t window,
                         std::vector<AttentionSplit>& splits);
int64_t AttentionSplitsMax(int32_t num_sequences, int32_t kv_tokens_max);

// On a GPU a sequence without rows is skipped, whatever its other entries say.
void Attention(const AttentionArgs& args, Stream& stream);

}  // namespace graft
