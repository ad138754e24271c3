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

// Positions of a sequence of one row whose softmax is independent: the unit of work of a GPU that
// decodes.
struct alignas(16) AttentionSplit {
  int32_t sequence;
  int32_t row;         // of q and out
  int32_t position;    // of the row, the last that it sees
  int32_t page_begin;  // into pages
  int32_t index;       // among the sequence's splits, counted from position 0
  int32_t num_splits;  // that the row sees
  int32_t tile_begin;  // tiles of kAttentionTileTokens positions, counted likewise
  int32_t tile_end;
};

// On a GPU the arrays of numbers, and the pool but for the last position of each sequence of one
// row, may be read while earlier kernels of the stream still run: write them with copies, or in
// steps that were launched before. What VirtualKv writes may be read so in the same step: it lets
// no later kernel start until it has written.
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

  // For GPUs where AttentionTellsGivenRows: the last so many sequences are of rows that were given,
  // as a prompt's are, and take a kernel of their own, however few they are. The rows of the others
  // were drawn, also where they are computed anew.
  int32_t num_given = 0;
  // For GPUs: what ListAttentionSplits made of the arrays without the last num_given sequences,
  // with this window, and how many they are.
  // Room for AttentionSplitsMax.
  const AttentionSplit* splits = nullptr;
  const int32_t* num_splits = nullptr;  // [1]
  // For GPUs, where the arrays are in the device's memory and the host cannot look: bounds on what
  // they say, for this call and all replays of its launches. The CPU does not read them.
  int32_t rows_max = 0;           // row_begin[num_sequences]
  int32_t sequence_rows_max = 0;  // rows of one sequence before the last num_given
  int32_t kv_tokens_max = 0;      // kv_tokens of one sequence
  // AttentionScratchBytes, zeroed before the first use and then used by this op alone, one launch
  // at a time.
  float* scratch = nullptr;
  // Where a GPU decodes, its next kernel begins when all of attention has ended, not as its blocks
  // leave. For one that takes a part of the card alone: of the multiprocessors that are free first
  // it gets such that the other part streams weights 5 % slower, until the layer's end.
  bool next_starts_late = false;
};

// Whether the device has a kernel for given rows, whose results are not the bits of drawn rows.
bool AttentionTellsGivenRows(const KvLayout& layout, const Device& device);

// Calls with up to these bounds need so much scratch; 0 on the CPU.
int64_t AttentionScratchBytes(const KvLayout& layout, int32_t num_heads, int32_t num_sequences,
                              int32_t kv_tokens_max, const Device& device);

// The splits of all sequences of one row, the longest first, so that whoever draws them in turn
// ends with the others. Arrays as in AttentionArgs, in the host's memory.
void ListAttentionSplits(std::span<const int32_t> row_begin, std::span<const int32_t> page_begin,
                         std::span<const int32_t> kv_tokens, int32_t window,
                         std::vector<AttentionSplit>& splits);
int64_t AttentionSplitsMax(int32_t num_sequences, int32_t kv_tokens_max);

// On a GPU a sequence without rows is skipped, whatever else its entries say.
void Attention(const AttentionArgs& args, Stream& stream);

}  // namespace graft
