// Transformer: one step of a decoder-only model over a ragged batch: prefill chunks and decode rows
// of many sequences and adapters, in one invocation (Punica, section 5). A row's logits depend on
// its own sequence and adapter alone, bit for bit, whatever else is in the batch and however its
// prompt was cut into chunks. All scratch is allocated at construction. Engine thread only.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/lora/lora.h"
#include "model/config.h"
#include "model/kv_pool.h"
#include "model/lora_module.h"
#include "model/rope_table.h"
#include "model/weights.h"
#include "tensor/buffer.h"
#include "tensor/stream.h"

namespace graft {

// The matrices of every adapter slot, as LoraStore keeps them: module m of layer l of slot s is
// matrices[s * stride + l * kLoraModules + m].
struct LoraTable {
  const LoraMatrix* matrices = nullptr;
  int64_t stride = 0;
  int32_t rank_max = 0;  // of the adapters in this batch, or any bound on it
};

// What one step computes, as plain arrays. Rows of one sequence are consecutive and in order.
struct ForwardBatch {
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
  // Rows with an adapter; empty for a step of base rows, which then does no LoRA work at all.
  std::span<const LoraSegment> lora_segments;
  LoraTable lora;
  // Rows whose logits are wanted, at most logits_rows_max.
  std::span<const int32_t> logits_rows;
};

struct TransformerLimits {
  int32_t step_tokens_max = 0;     // rows of one step
  int32_t logits_rows_max = 0;     // rows of logits at once
  int32_t context_tokens_max = 0;  // positions
  int32_t lora_rank_max = kLoraRankMax;
};

// Nanoseconds, added to at every call that is given one.
struct ForwardTimes {
  int64_t gemm_ns = 0;
  int64_t lora_ns = 0;
  int64_t attention_ns = 0;
  int64_t total_ns = 0;
};

class Transformer {
 public:
  // `config` is copied; `weights` and `pool` are borrowed.
  Transformer(const ModelConfig& config, const ModelWeights& weights, KvPool& pool,
              const TransformerLimits& limits, Stream& stream);

  // Runs the step, writing its keys and values into the pool. Returns the logits of
  // batch.logits_rows, fp32 [logits_rows, vocab_size], valid until the next call.
  const float* Forward(const ForwardBatch& batch, Stream& stream, ForwardTimes* times = nullptr);

  // Logits of further rows of the last step, for prompts whose every row is asked for. They replace
  // those that the last call returned.
  const float* Logits(std::span<const int32_t> rows, Stream& stream, ForwardTimes* times = nullptr);

  const ModelConfig& config() const { return config_; }
  const TransformerLimits& limits() const { return limits_; }
  int64_t scratch_bytes() const;

 private:
  struct Step;  // what every op of one call needs

  void CheckBatch(const ForwardBatch& batch) const;
  void Layer(int32_t layer, const Step& step);
  void Attention(int32_t layer, const Step& step);
  void Mlp(int32_t layer, const Step& step);
  void Norm(const float* x, const Buffer& weight, const Step& step);
  void NormHeads(float* x, const Buffer& weight, int32_t num_heads, const Step& step);
  void AttendPages(int32_t layer, const Step& step);
  // y = x W^T + bias (+ y), with the adapters' share of the modules from `first` on, which lie side
  // by side in y.
  struct Projection;
  void Project(const Projection& projection, int32_t layer, const Step& step);
  void AddLora(const Projection& projection, int32_t layer, const Step& step);

  const ModelConfig config_;
  const ModelWeights& weights_;
  KvPool& pool_;
  const TransformerLimits limits_;
  const RopeTable rope_;
  int32_t num_rows_ = 0;  // of the last step

  // Activations, a row per token. The residual stream and what GEMMs return are fp32; what GEMMs
  // read is in the model's dtype.
  Buffer hidden_;         // fp32 [step_tokens_max, hidden]
  Buffer normed_;         // [step_tokens_max, hidden]
  Buffer qkv_;            // fp32 [step_tokens_max, q + k + v]
  Buffer attended_;       // [step_tokens_max, q]
  Buffer gate_up_;        // fp32 [step_tokens_max, 2 intermediate]
  Buffer activated_;      // [step_tokens_max, intermediate]
  Buffer lora_h_;         // fp32 [kLoraSlicesMax, step_tokens_max, lora_rank_max]
  Buffer logits_hidden_;  // fp32 [logits_rows_max, hidden]
  Buffer logits_normed_;  // [logits_rows_max, hidden]
  Buffer logits_;         // fp32 [logits_rows_max, vocab]
};

}  // namespace graft
