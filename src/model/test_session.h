// Drives a Transformer by hand: sequences with pages scattered over the pool, and steps made
// of chunks of them. For tests only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/shuffle.h"
#include "model/transformer.h"

namespace graft::testing {

// The threads and the stream of a device. Empty where the machine has no such device.
class TestDevice {
 public:
  explicit TestDevice(DeviceKind kind) {
    if (kind == DeviceKind::kCpu || NumCudaDevices() > 0) stream_.emplace(Device{kind}, &threads_);
  }
  bool exists() const { return stream_.has_value(); }
  Stream& stream() { return stream_->get(); }

 private:
  ThreadPool threads_{2};
  std::optional<OwnedStream> stream_;
};

// The next rows of one sequence.
struct Chunk {
  int32_t sequence = 0;
  std::vector<int32_t> tokens;
  int32_t adapter_slot = -1;  // -1: the base
};

class TestSession {
 public:
  TestSession(const ModelConfig& config, const ModelWeights& weights, Stream& stream,
              int32_t page_tokens = 5, int32_t num_pages = 256,
              const TransformerLimits& limits = {.step_tokens_max = 512, .logits_rows_max = 512},
              RankExchange* ranks = nullptr)
      : stream_(stream),
        pool_(MakeKvLayout(config, page_tokens, weights.types.kv), num_pages, stream.device),
        transformer_(config, weights, pool_, Limits(limits, config), stream, ranks) {
    // The pages are shuffled, so that no sequence's pages lie side by side.
    free_pages_.resize(num_pages);
    std::iota(free_pages_.begin(), free_pages_.end(), 0);
    Random random(7);
    Shuffle(free_pages_, random);
  }

  // From here on all rows count as drawn, so that their LoRA may go beside the products.
  void TreatRowsAsDrawn(LoraBesideScope lora_beside) {
    are_drawn_ = true;
    lora_beside_ = lora_beside;
  }

  // From here on all adapters count as ones that change the head.
  void ChangeHead() { changes_head_ = true; }

  // Runs one step over the chunks. Returns the logits of each of their rows, in order.
  std::vector<std::vector<float>> Step(const std::vector<Chunk>& chunks, const LoraTable& lora = {},
                                       ForwardTimes* times = nullptr) {
    return Run(chunks, lora, times, false);
  }
  // Runs one step and returns the logits of each chunk's last row only.
  std::vector<std::vector<float>> StepForLast(const std::vector<Chunk>& chunks) {
    return Run(chunks, {}, nullptr, true);
  }

  Transformer& transformer() { return transformer_; }
  Stream& stream() { return stream_; }

 private:
  std::vector<std::vector<float>> Run(const std::vector<Chunk>& chunks, const LoraTable& lora,
                                      ForwardTimes* times, bool last_rows_alone) {
    std::vector<int32_t> tokens, positions, row_page, row_slot, pages, kv_tokens, rows;
    std::vector<int32_t> row_begin = {0}, page_begin = {0};
    std::vector<LoraSegment> segments;
    const int32_t page_tokens = pool_.layout().page_tokens;
    for (const Chunk& chunk : chunks) {
      Sequence& sequence = sequences_[chunk.sequence];
      for (const int32_t& token : chunk.tokens) {
        if (sequence.num_tokens % page_tokens == 0) {
          CHECK(!free_pages_.empty());
          sequence.pages.push_back(free_pages_.back());
          free_pages_.pop_back();
        }
        const bool is_last = &token == &chunk.tokens.back();
        if (is_last || !last_rows_alone) rows.push_back(static_cast<int32_t>(tokens.size()));
        tokens.push_back(token);
        positions.push_back(sequence.num_tokens);
        row_page.push_back(sequence.pages.back());
        row_slot.push_back(sequence.num_tokens % page_tokens);
        ++sequence.num_tokens;
      }
      pages.insert(pages.end(), sequence.pages.begin(), sequence.pages.end());
      page_begin.push_back(static_cast<int32_t>(pages.size()));
      row_begin.push_back(static_cast<int32_t>(tokens.size()));
      kv_tokens.push_back(sequence.num_tokens);
      if (chunk.adapter_slot >= 0) {
        segments.push_back({row_begin[row_begin.size() - 2], row_begin.back(), chunk.adapter_slot});
      }
    }
    HostBatch batch;
    batch.tokens = tokens;
    batch.positions = positions;
    batch.row_page = row_page;
    batch.row_slot = row_slot;
    batch.row_begin = row_begin;
    batch.page_begin = page_begin;
    batch.pages = pages;
    batch.kv_tokens = kv_tokens;
    batch.num_given = are_drawn_ ? 0 : static_cast<int32_t>(chunks.size());
    batch.logits_rows = rows;
    (are_drawn_ ? batch.lora_segments : batch.lora_prompt_segments) = segments;
    batch.lora = lora;
    CHECK(!changes_head_ || !last_rows_alone) << "rows of logits that are no rows of the step";
    if (changes_head_) batch.head_segments = segments;
    batch.lora_beside = lora_beside_;
    const float* logits = transformer_.Forward(batch, stream_, times);
    const int64_t vocab = transformer_.config().vocab_size;
    std::vector<std::vector<float>> result(rows.size(), std::vector<float>(vocab));
    for (std::vector<float>& row : result) {
      CopyFromDevice(row.data(), logits, vocab * int64_t{sizeof(float)}, stream_);
      logits += vocab;
    }
    Synchronize(stream_);
    return result;
  }

  // Where the limits have no context, the model's own is used.
  static TransformerLimits Limits(TransformerLimits limits, const ModelConfig& config) {
    if (limits.context_tokens_max == 0) limits.context_tokens_max = config.context_tokens_max;
    return limits;
  }

  struct Sequence {
    int32_t num_tokens = 0;
    std::vector<int32_t> pages;
  };

  Stream& stream_;
  KvPool pool_;
  Transformer transformer_;
  std::map<int32_t, Sequence> sequences_;
  std::vector<int32_t> free_pages_;
  bool are_drawn_ = false;
  bool changes_head_ = false;
  LoraBesideScope lora_beside_ = LoraBesideScope::kNone;
};

inline double LogProb(const std::vector<float>& logits, int32_t token) {
  double max = -INFINITY;
  for (const float logit : logits) max = std::max(max, static_cast<double>(logit));
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - max);
  return static_cast<double>(logits[token]) - max - std::log(sum);
}

inline int32_t Argmax(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace graft::testing
