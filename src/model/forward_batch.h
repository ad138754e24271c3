// What a Transformer's step is made of: rows, sequences, pages and LoRA segments as plain arrays,
// in the host's memory (HostBatch) and where kernels read them (DeviceBatch).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "kernels/attention/attention.h"
#include "kernels/common/virtual_rows.h"
#include "kernels/gemm/gemm.h"
#include "kernels/lora/lora.h"
#include "kernels/small_copy/small_copy.h"
#include "model/launch_plan.h"
#include "model/layer_gate.h"
#include "model/lora_bridge.h"
#include "tensor/buffer.h"
#include "tensor/cuda_memory.h"
#include "tensor/stream.h"

namespace graft {

// The matrices of every adapter slot, as LoraStore keeps them: module m of layer l of slot s is
// matrices[s * stride + l * kLoraModules + m].
struct LoraTable {
  const LoraMatrix* matrices = nullptr;
  int64_t stride = 0;
  int32_t rank_max = 0;  // of the adapters in this batch, or any bound on it
};

// Rows, sequences and LoRA segments of a step. Rows of one sequence are consecutive and in order.
struct BatchArrays {
  // [num_rows] each.
  std::span<const int32_t> tokens;
  std::span<const int32_t> positions;
  std::span<const int32_t> row_page;  // where the row's key and value go
  std::span<const int32_t> row_slot;
  // Sequences, as AttentionArgs has them.
  std::span<const int32_t> row_begin;   // [num_sequences + 1]
  std::span<const int32_t> page_begin;  // [num_sequences + 1]
  std::span<const int32_t> pages;       // of all sequences
  std::span<const int32_t> kv_tokens;   // [num_sequences]
  // The last so many sequences are of rows that were given, as a prompt's are, the others of drawn
  // rows: see AttentionArgs.
  int32_t num_given = 0;
  // The rows whose logits are asked for, at most logits_rows_max.
  std::span<const int32_t> logits_rows;
  // Rows with an adapter; empty for a step of base rows, which then does no LoRA work at all.
  std::span<const LoraSegment> lora_segments;
  // Likewise, for rows of prompts: on a GPU their B joins the GEMM (LoraPlace::kInside), which pays
  // for the many rows of a prompt and not for decode's few. It rounds in another order, so which of
  // the two a row is in must be the row's own matter and never its batch's.
  std::span<const LoraSegment> lora_prompt_segments;
  // The rest of both kinds of segments where a bridge computes for adapters under way.
  std::span<const LoraSegment> settled_segments;
  std::span<const LoraSegment> settled_prompt_segments;
  // Rows that are adapters' virtual tokens, whatever `tokens` has there, as VirtualEmbedding takes
  // them; and positions before the sequences' rows whose keys and values VirtualKv writes first.
  // One run a sequence at most.
  std::span<const VirtualRun> virtual_embeddings;
  std::span<const VirtualRun> virtual_kv;
};

// Which weights a step computes with, and who else takes part. The host reads it when it launches.
struct BatchWeights {
  LoraTable lora;
  const VirtualRows* virtual_rows = nullptr;  // by adapter slot; for runs of virtual tokens
  // The gate of a step whose adapters are on their way; null: all have arrived. A step with a gate
  // is not recorded.
  LayerGate* gate = nullptr;
  // Computes for these adapters until they are there; null: the step waits at the gate.
  LoraBridge* bridge = nullptr;
  // Products whose LoRA of lora_segments is computed beside them (LoraBeside), which is faster for
  // a few adapters; the bits are the same. Ignored where the device or the number of rows forbids
  // it.
  LoraBesideScope lora_beside = LoraBesideScope::kNone;
};

// How a step is brought to a GPU, and when that began.
struct BatchTransport {
  // In a GPU's memory: [num_rows] what the step before draws, which still runs; they take the place
  // of `tokens`. Null: `tokens` are known, and nothing runs.
  const int32_t* drawn_tokens = nullptr;
  // On a GPU whose copy engine has much to do: SmallCopy brings the arrays.
  bool avoids_copy_engine = false;
  // On a GPU, recorded when the stream comes to the step's first copy; may be null.
  StreamEvent* begun = nullptr;
};

// A step as it is made, of arrays in the host's memory. It has no members of its own: what sends a
// step to other ranks (executor/rank_batch.h) names those of each base, and would miss them.
struct HostBatch : BatchArrays, BatchWeights, BatchTransport {};

// A step as kernels read it: arrays where they run, which on the CPU are the HostBatch's own, and
// what was found out while the host could look at them. On a GPU long segments are cut.
struct DeviceBatch : BatchArrays, BatchWeights {
  // The following members are for a GPU alone. Both kinds of segments, where a batch has both:
  // LoraShrink treats them alike.
  std::span<const LoraSegment> lora_all_segments;
  const uint32_t* step = nullptr;  // the number of this Put, from 1; see LoraBeside::step
  // Sequences of one row, as AttentionArgs has their splits, for layers that attend to all
  // positions and for those that do to ForwardBatchLimits::window.
  struct Splits {
    const AttentionSplit* splits = nullptr;
    const int32_t* count = nullptr;
  };
  Splits full_splits;
  Splits window_splits;
  // Bounds that launches are sized by, as the host cannot look at the arrays any more.
  GemmEpilogue::RowRange lora_rows;   // all of lora_segments lie in them
  int32_t lora_segment_rows_max = 0;  // of one of lora_segments
  int32_t sequence_rows_max = 0;      // rows of one sequence before the last num_given
  int32_t kv_tokens_max = 0;
  int32_t virtual_run_tokens_max = 0;  // of both kinds
};

struct ForwardBatchLimits {
  int32_t num_rows = 0;
  int32_t num_sequences = 0;
  int32_t num_logits_rows = 0;
  int64_t num_pages = 0;  // of all sequences together, shared ones counted each time
  int32_t kv_tokens = 0;  // of a sequence
  int32_t window = 0;     // of layers that do not attend to all positions; 0: there are none
  // AttentionTellsGivenRows. Otherwise no sequence is given in what BatchUpload puts.
  bool tells_given_rows = false;
};

// Brings batches to a device, to addresses that never change: a captured graph finds the next
// step's numbers where it found the last one's. Engine thread only.
class BatchUpload {
 public:
  BatchUpload(const ForwardBatchLimits& limits, const Device& device);
  // What it allocates: on a GPU, and page-locked beside one. Nothing for the CPU.
  static int64_t BytesOnDevice(const ForwardBatchLimits& limits, const Device& device);
  static int64_t BytesOnHost(const ForwardBatchLimits& limits, const Device& device);

  // Rows that a graph of `num_rows` rows computes for nobody: no sequence owns them, nothing is
  // written to a page for them.
  struct Padding {
    int32_t num_rows = 0;  // rows, sequences and logits rows; 0: none
    int32_t kv_tokens_max = 0;
    int32_t lora_segments = 0;      // of drawn rows, of up to kLoraTileRows rows each; 0: none
    int32_t sequence_rows_max = 1;  // of a sequence that has rows
  };

  // The batch as the kernels of the device read it: on the CPU the very arrays given; on a GPU
  // their copy, in order on the stream, with long LoRA segments cut for its kernels. On a GPU the
  // copy before the last must have happened (it has once the step before the last was waited for).
  DeviceBatch Put(const HostBatch& batch, const Padding& padding, Stream& stream);

 private:
  void PutArrays(const HostBatch& batch, const Padding& padding, DeviceBatch& put);
  void PutSegments(const HostBatch& batch, const Padding& padding, DeviceBatch& put);
  void PutVirtualTokens(const HostBatch& batch, DeviceBatch& put);
  void Copy(const HostBatch& batch, Stream& stream);
  void Fill(int64_t bytes);
  void CopyFilled(char* device, const Stream& stream);
  void CopyFilledEarly(Stream& stream);
  template <typename T>
  std::span<T> Append(std::span<const T> values, size_t padded_size, T padding, int64_t capacity);
  std::span<const LoraSegment> AppendSegments(
      std::initializer_list<std::span<const LoraSegment>> kinds, int32_t rows_max,
      size_t padded_size, int32_t num_rows);

  int32_t NumGiven(const HostBatch& batch) const;
  DeviceBatch::Splits AppendSplits(const HostBatch& batch, int32_t window);

  const ForwardBatchLimits limits_;
  const Device where_;
  static constexpr size_t kTurns = 2;
  std::array<PinnedBuffer, kTurns> hosts_;  // taking turns
  Buffer device_;
  std::array<Buffer, kTurns> earlies_;  // what comes while the step before runs, taking turns
  OwnedStream uploads_;                 // theirs
  StreamEvent uploaded_;
  char* host_ = nullptr;           // whose turn it is
  int64_t used_ = 0;               // bytes of the arrays laid out so far
  std::vector<ByteRange> filled_;  // what of them is copied
  std::vector<LoraSegment> segments_;
  std::vector<AttentionSplit> splits_;
  int32_t* tokens_ = nullptr;  // of the last Put, in device_
  uint32_t num_puts_ = 0;
};

}  // namespace graft
