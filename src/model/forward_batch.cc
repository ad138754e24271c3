#include "model/forward_batch.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace graft {
namespace {

// Every array starts at a multiple of it: vector loads, cache lines.
constexpr int64_t kAlignment = 128;
// Bytes of room that nothing filled take less time to copy than another copy to begin.
constexpr int64_t kCopiedGapMax = 32 << 10;
// A GPU's LoRA kernels share out long segments in pieces of so many rows. In a graph pieces have
// kLoraTileRows, as the tensor cores take at once: its grids have blocks for each such tile.
constexpr int32_t kSegmentRowsMax = 64;
// Pieces in one launch with so many decode segments have kLoraTileRows, too: a decode segment's
// block has one pass to do, and a block with 64 rows would have eight.
constexpr int64_t kManySegments = 8;

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

int64_t SegmentsMax(const ForwardBatchLimits& limits) {
  return limits.num_rows / kLoraTileRows + int64_t{2} * limits.num_sequences;
}

int64_t BytesOf(const ForwardBatchLimits& limits) {
  constexpr auto kInt = int64_t{sizeof(int32_t)};
  const int64_t split_bytes =
      AttentionSplitsMax(limits.num_sequences, limits.kv_tokens) * int64_t{sizeof(AttentionSplit)};
  const int num_split_lists = limits.window > 0 ? 2 : 1;
  return Aligned(sizeof(uint32_t)) +                                        // step
         4 * Aligned(kInt * limits.num_rows) +                              // tokens .. row_slot
         2 * Aligned(kInt * (limits.num_sequences + 1)) +                   // row_begin, page_begin
         Aligned(kInt * limits.num_sequences) +                             // kv_tokens
         Aligned(kInt * limits.num_logits_rows) +                           // logits_rows
         num_split_lists * (Aligned(kInt) + Aligned(split_bytes)) +         //
         5 * Aligned(SegmentsMax(limits) * int64_t{sizeof(LoraSegment)}) +  // of all kinds
         Aligned(limits.num_logits_rows * int64_t{sizeof(LoraSegment)}) +   // head_segments
         2 * Aligned(limits.num_sequences * int64_t{sizeof(VirtualRun)}) +  // of both kinds
         Aligned(kInt * limits.num_pages);
}

GemmEpilogue::RowRange RowsOf(std::span<const LoraSegment> segments) {
  if (segments.empty()) return {};
  GemmEpilogue::RowRange rows{segments[0].row_begin, segments[0].row_end};
  for (const LoraSegment& segment : segments) {
    rows.begin = std::min(rows.begin, segment.row_begin);
    rows.end = std::max(rows.end, segment.row_end);
  }
  return rows;
}

int32_t LongestRun(std::span<const VirtualRun> runs) {
  int32_t longest = 0;
  for (const VirtualRun& run : runs) longest = std::max(longest, run.token_end - run.token_begin);
  return longest;
}

}  // namespace

BatchUpload::BatchUpload(const ForwardBatchLimits& limits, const Device& device)
    : limits_(limits), where_(device), uploads_(device, nullptr), uploaded_(device) {
  if (device.is_cpu()) return;
  for (PinnedBuffer& host : hosts_) host = PinnedBuffer(BytesOf(limits));
  for (Buffer& early : earlies_) early = Buffer(BytesOf(limits), device);
  device_ = Buffer(BytesOf(limits), device);
}

int64_t BatchUpload::BytesOnDevice(const ForwardBatchLimits& limits, const Device& device) {
  return device.is_cpu() ? 0 : static_cast<int64_t>(1 + kTurns) * BytesOf(limits);
}

int64_t BatchUpload::BytesOnHost(const ForwardBatchLimits& limits, const Device& device) {
  return device.is_cpu() ? 0 : static_cast<int64_t>(kTurns) * BytesOf(limits);
}

// What follows the arrays placed so far is to be copied.
void BatchUpload::Fill(int64_t bytes) {
  if (bytes == 0) return;
  filled_.push_back({used_, used_ + bytes});
}

// A copy in the stream would begin when all before it has ended, and then stand behind whatever
// adapter began to load meanwhile. So one that is begun ahead has its numbers brought beside what
// still runs, and takes them from there.
void BatchUpload::CopyFilledEarly(Stream& stream) {
  char* const early = earlies_[num_puts_ % earlies_.size()].as<char>();
  CopyFilled(early, uploads_.get());
  uploaded_.Record(uploads_.get());
  uploaded_.HoldUp(stream);
  SmallCopy({.target = device_.as<char>(), .source = early, .ranges = filled_}, stream);
}

void BatchUpload::CopyFilled(char* device, const Stream& stream) {
  for (size_t i = 0; i < filled_.size();) {
    ByteRange range = filled_[i];
    while (++i < filled_.size() && filled_[i].begin - range.end <= kCopiedGapMax) {
      range.end = filled_[i].end;
    }
    CopyToDevice(device + range.begin, host_ + range.begin, range.end - range.begin, stream);
  }
}

// Places an array of `capacity` elements after the others, and returns where the device finds it.
template <typename T>
std::span<T> BatchUpload::Append(std::span<const T> values, size_t padded_size, T padding,
                                 int64_t capacity) {
  const size_t size = std::max(values.size(), padded_size);
  CHECK_LE(static_cast<int64_t>(size), capacity);
  T* const host = reinterpret_cast<T*>(host_ + used_);
  std::copy(values.begin(), values.end(), host);
  std::fill(host + values.size(), host + size, padding);
  T* const device = reinterpret_cast<T*>(device_.as<char>() + used_);
  Fill(static_cast<int64_t>(size * sizeof(T)));
  used_ += Aligned(capacity * static_cast<int64_t>(sizeof(T)));
  return {device, size};
}

// The segments in pieces of up to rows_max rows, ascending.
std::span<const LoraSegment> BatchUpload::AppendSegments(
    std::initializer_list<std::span<const LoraSegment>> kinds, int32_t rows_max, size_t padded_size,
    int32_t num_rows, int64_t capacity) {
  segments_.clear();
  for (const std::span<const LoraSegment> segments : kinds) {
    for (const LoraSegment& segment : segments) {
      for (int32_t row = segment.row_begin; row < segment.row_end; row += rows_max) {
        const int32_t end = std::min(row + rows_max, segment.row_end);
        segments_.push_back({row, end, segment.adapter_slot});
      }
    }
  }
  std::ranges::sort(segments_, {}, &LoraSegment::row_begin);
  return Append(std::span<const LoraSegment>(segments_), padded_size,
                LoraSegment{num_rows, num_rows, 0}, capacity);
}

int32_t BatchUpload::NumGiven(const HostBatch& batch) const {
  return limits_.tells_given_rows ? batch.num_given : 0;
}

DeviceBatch::Splits BatchUpload::AppendSplits(const HostBatch& batch, int32_t window) {
  const auto num_drawn = batch.kv_tokens.size() - static_cast<size_t>(NumGiven(batch));
  ListAttentionSplits(batch.row_begin.first(num_drawn + 1), batch.page_begin.first(num_drawn + 1),
                      batch.kv_tokens.first(num_drawn), window, splits_);
  const auto count = static_cast<int32_t>(splits_.size());
  const int32_t* const count_on_device = Append(std::span(&count, 1), 1, 0, 1).data();
  return {Append(std::span<const AttentionSplit>(splits_), 0, AttentionSplit{},
                 AttentionSplitsMax(limits_.num_sequences, limits_.kv_tokens))
              .data(),
          count_on_device};
}

void BatchUpload::PutArrays(const HostBatch& batch, const Padding& padding, DeviceBatch& put) {
  const auto padded = static_cast<size_t>(padding.num_rows);
  const auto num_rows = static_cast<int32_t>(batch.tokens.size());
  put.step = Append(std::span<const uint32_t>(&num_puts_, 1), 1, uint32_t{0}, 1).data();
  const std::span<int32_t> tokens = Append(batch.tokens, padded, 0, limits_.num_rows);
  tokens_ = tokens.data();
  put.tokens = tokens;
  put.positions = Append(batch.positions, padded, 0, limits_.num_rows);
  put.row_page = Append(batch.row_page, padded, -1, limits_.num_rows);
  put.row_slot = Append(batch.row_slot, padded, 0, limits_.num_rows);
  const size_t borders = padded == 0 ? 0 : padded + 1;
  put.row_begin = Append(batch.row_begin, borders, num_rows, limits_.num_sequences + 1);
  put.page_begin = Append(batch.page_begin, borders, static_cast<int32_t>(batch.pages.size()),
                          limits_.num_sequences + 1);
  put.kv_tokens = Append(batch.kv_tokens, padded, 0, limits_.num_sequences);
  put.logits_rows = Append(batch.logits_rows, padded, 0, limits_.num_logits_rows);
}

void BatchUpload::PutSegments(const HostBatch& batch, const Padding& padding, DeviceBatch& put) {
  const auto padded = static_cast<size_t>(padding.num_rows);
  const auto num_rows = static_cast<int32_t>(batch.tokens.size());
  const int32_t rows_max = padded == 0 ? kSegmentRowsMax : kLoraTileRows;
  const int64_t capacity = SegmentsMax(limits_);
  const auto append = [&](std::initializer_list<std::span<const LoraSegment>> kinds,
                          int32_t segment_rows, size_t padded_size = 0) {
    return AppendSegments(kinds, segment_rows, padded_size, num_rows, capacity);
  };
  put.lora_segments =
      append({batch.lora_segments}, rows_max, static_cast<size_t>(padding.lora_segments));
  put.lora_segment_rows_max = rows_max;
  put.lora_prompt_segments = append({batch.lora_prompt_segments}, rows_max);
  if (!batch.lora_segments.empty() && !batch.lora_prompt_segments.empty()) {
    const bool has_many = std::ssize(batch.lora_segments) >= kManySegments;
    put.lora_all_segments = append({batch.lora_segments, batch.lora_prompt_segments},
                                   has_many ? std::min(rows_max, kLoraTileRows) : rows_max);
  }
  put.settled_segments = append({batch.settled_segments}, rows_max);
  put.settled_prompt_segments = append({batch.settled_prompt_segments}, rows_max);
}

// Behind all that steps without have, so that it costs those nothing.
void BatchUpload::PutHeadSegments(const HostBatch& batch, const Padding& padding,
                                  DeviceBatch& put) {
  if (batch.head_segments.empty() && padding.head_segments == 0) return;
  put.head_segments =
      AppendSegments({batch.head_segments}, padding.num_rows == 0 ? kSegmentRowsMax : kLoraTileRows,
                     static_cast<size_t>(padding.head_segments),
                     static_cast<int32_t>(batch.logits_rows.size()), limits_.num_logits_rows);
}

void BatchUpload::PutVirtualTokens(const HostBatch& batch, DeviceBatch& put) {
  const auto put_runs = [this](std::span<const VirtualRun> runs) {
    return Append(runs, 0, VirtualRun{}, limits_.num_sequences);
  };
  put.virtual_embeddings = put_runs(batch.virtual_embeddings);
  put.virtual_kv = put_runs(batch.virtual_kv);
}

// What was laid out, and the tokens that the device has already.
void BatchUpload::Copy(const HostBatch& batch, Stream& stream) {
  if (batch.avoids_copy_engine) {
    SmallCopy({.target = device_.as<char>(), .source = host_, .ranges = filled_}, stream);
  } else if (batch.drawn_tokens != nullptr) {
    CopyFilledEarly(stream);
  } else {
    CopyFilled(device_.as<char>(), stream);
  }
  if (batch.drawn_tokens == nullptr) return;
  const ByteRange all = {0, static_cast<int64_t>(batch.tokens.size_bytes())};
  SmallCopy({.target = tokens_, .source = batch.drawn_tokens, .ranges = std::span(&all, 1)},
            stream);
}

DeviceBatch BatchUpload::Put(const HostBatch& batch, const Padding& padding, Stream& stream) {
  DeviceBatch put;
  static_cast<BatchWeights&>(put) = batch;
  put.kv_tokens_max = padding.kv_tokens_max;
  put.sequence_rows_max = padding.num_rows > 0 ? padding.sequence_rows_max : 0;
  const int32_t num_given = NumGiven(batch);
  CHECK(num_given == 0 || padding.num_rows == 0) << "padding would come behind given rows";
  for (size_t i = 0; i < batch.kv_tokens.size(); ++i) {
    put.kv_tokens_max = std::max(put.kv_tokens_max, batch.kv_tokens[i]);
    if (i + static_cast<size_t>(num_given) >= batch.kv_tokens.size()) continue;
    put.sequence_rows_max =
        std::max(put.sequence_rows_max, batch.row_begin[i + 1] - batch.row_begin[i]);
  }
  put.lora_rows = RowsOf(batch.lora_segments);
  put.virtual_run_tokens_max =
      std::max(LongestRun(batch.virtual_embeddings), LongestRun(batch.virtual_kv));
  if (where_.is_cpu()) static_cast<BatchArrays&>(put) = batch;
  put.num_given = num_given;
  if (where_.is_cpu()) return put;
  used_ = 0;
  filled_.clear();
  host_ = hosts_[++num_puts_ % hosts_.size()].as<char>();
  PutArrays(batch, padding, put);
  PutSegments(batch, padding, put);
  PutVirtualTokens(batch, put);
  put.full_splits = AppendSplits(batch, 0);
  if (limits_.window > 0) put.window_splits = AppendSplits(batch, limits_.window);
  put.pages = Append(batch.pages, 0, 0, limits_.num_pages);
  PutHeadSegments(batch, padding, put);
  if (batch.begun != nullptr) batch.begun->Record(stream);
  Copy(batch, stream);
  return put;
}

}  // namespace graft
