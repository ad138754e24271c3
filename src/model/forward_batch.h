// A Transformer's step as it is made, of plain arrays in the host's memory, and how they come to
// where kernels read them (layers/device_batch.h).
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "kernels/small_copy/small_copy.h"
#include "layers/device_batch.h"
#include "tensor/buffer.h"
#include "tensor/cuda_memory.h"
#include "tensor/stream.h"

namespace graft {

// How a step is brought to a GPU, and when that began.
struct BatchTransport {
  // In a GPU's memory: [num_rows] what the step before draws, which still runs; they take the place
  // of `tokens`. Null: `tokens` are known, and nothing runs.
  const int32_t* drawn_tokens = nullptr;
  // True while a GPU's copy engine has much to do: SmallCopy brings the arrays then.
  bool avoids_copy_engine = false;
  // On a GPU, recorded when the stream comes to the step's first copy; may be null.
  StreamEvent* begun = nullptr;
};

// A step as it is made, of arrays in the host's memory. It has no members of its own: what sends a
// step to other ranks (executor/rank_batch.h) names those of each base, and would miss them.
struct HostBatch : BatchArrays, BatchWeights, BatchTransport {};

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

  // The sizes to which a batch is padded for a graph. The rows added belong to no sequence, and
  // nothing is written to a page for them.
  struct Padding {
    int32_t num_rows = 0;  // rows, sequences and logits rows; 0: none
    int32_t kv_tokens_max = 0;
    int32_t lora_segments = 0;      // of drawn rows, of up to kLoraTileRows rows each; 0: none
    int32_t head_segments = 0;      // of rows of logits, in segments of that size
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
  void PutHeadSegments(const HostBatch& batch, const Padding& padding, DeviceBatch& put);
  void Copy(const HostBatch& batch, Stream& stream);
  void Fill(int64_t bytes);
  void CopyFilled(char* device, const Stream& stream);
  void CopyFilledEarly(Stream& stream);
  template <typename T>
  std::span<T> Append(std::span<const T> values, size_t padded_size, T padding, int64_t capacity);
  std::span<const LoraSegment> AppendSegments(
      std::initializer_list<std::span<const LoraSegment>> kinds, int32_t rows_max,
      size_t padded_size, int32_t num_rows, int64_t capacity);

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
  char* host_ = nullptr;           // of hosts_, the one that has the turn
  int64_t used_ = 0;               // bytes of the arrays laid out so far
  std::vector<ByteRange> filled_;  // what of them is copied
  std::vector<LoraSegment> segments_;
  std::vector<AttentionSplit> splits_;
  int32_t* tokens_ = nullptr;  // of the last Put, in device_
  uint32_t num_puts_ = 0;
};

}  // namespace graft
