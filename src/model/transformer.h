// Transformer: one step of a decoder-only model over a ragged batch: prefill chunks and decode rows
// of many sequences and adapters, in one invocation (Punica, section 5). A row's logits depend on
// its own sequence and adapter alone, bit for bit, whatever else is in the batch and however its
// prompt was cut into chunks. All scratch is allocated at construction, as SizesOf has it. Engine
// thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/lora/lora.h"
#include "model/config.h"
#include "model/forward_batch.h"
#include "model/kv_pool.h"
#include "model/launch_plan.h"
#include "model/lora_module.h"
#include "model/rank_exchange.h"
#include "model/rope_table.h"
#include "model/transformer_sizes.h"
#include "model/weights.h"
#include "tensor/buffer.h"
#include "tensor/device_traits.h"
#include "tensor/stream.h"
#include "tensor/stream_timer.h"

namespace graft {

// Nanoseconds. Every call that is given such a struct adds to it.
struct ForwardTimes {
  int64_t gemm_ns = 0;
  int64_t lora_ns = 0;
  int64_t attention_ns = 0;
  int64_t ranks_ns = 0;  // waiting for other ranks, and summing up what they have
  int64_t total_ns = 0;
};

class Transformer {
 public:
  // `config` is copied; `weights` and `pool` are borrowed. One of several `ranks` computes its
  // slice of every step, in company of the others: `config` is ShardConfig's, and parts are at
  // least PartFloatsOf. Rank 0 has the logits.
  Transformer(const ModelConfig& config, const ModelWeights& weights, KvPool& pool,
              const TransformerLimits& limits, Stream& stream, RankExchange* ranks = nullptr);

  // Runs the step, writing its keys and values into the pool. Returns the logits of
  // batch.logits_rows, fp32 [logits_rows, vocab_size] in the device's memory, valid until the next
  // call. Asking for
  // `times` waits for the device.
  const float* Forward(const HostBatch& batch, Stream& stream, ForwardTimes* times = nullptr);

  // Forward in two: the copy of the batch to the device, and the launches, which a CapturedGraph
  // may record. Replaying the recording of one Run after Put of another batch with the same padding
  // is that batch's step.
  DeviceBatch Put(const HostBatch& batch, const BatchUpload::Padding& padding, Stream& stream);
  const float* Run(const DeviceBatch& batch, Stream& stream, ForwardTimes* times = nullptr);

  // Logits of further rows of the last step, for prompts whose every row is asked for. They replace
  // those that the last call returned.
  const float* Logits(std::span<const int32_t> rows, Stream& stream);

  // Hidden states of rows of the last step behind the final norm, fp32 [rows, hidden], where the
  // next call of Logits or HiddenStates has its own. On a GPU `rows` must be pinned.
  const float* HiddenStates(std::span<const int32_t> rows, Stream& stream);

  // One of several ranks: where a step of so many rows could not be computed to its end, or not
  // even begun, the other ranks' exchanges come to theirs. What comes of the step means nothing.
  // The same after Logits, of no rows.
  void GiveUp(int64_t num_rows, bool has_logits, Stream& stream);

  // When the device has done a step: see RankExchange::CheckAfterStep.
  void CheckRanks() const {
    if (ranks_ != nullptr) ranks_->CheckAfterStep();
  }

  // What is fastest to ask for as BatchWeights::lora_beside in steps of so many rows, all drawn:
  // see graft::ChooseBesideScope.
  LoraBesideScope ChooseBesideScope(int64_t num_rows, int32_t rank_bound, int32_t num_tiles) const;

  const ModelConfig& config() const { return config_; }
  const TransformerLimits& limits() const { return limits_; }

 private:
  struct Step;  // what every op of one call needs

  // Whether LoRA can run beside the products of so many rows.
  bool CanRunLoraBeside(int64_t num_rows) const;
  void CheckBatch(const HostBatch& batch) const;
  // The rows' embeddings, and the keys and values that no row computes.
  void Embed(const Step& step);
  void RunLogits(std::span<const int32_t> rows, const Step& step);
  // Writes the rows' hidden states behind the final norm to logits_normed_.
  void NormRows(std::span<const int32_t> rows, Stream& stream);
  void PickRows(std::span<const int32_t> rows, Stream& stream);  // to logits_hidden_
  void NormPicked(int64_t num_rows, DType dtype, void* out, Stream& stream);
  StreamTimer* TimerFor(Stream& stream, const ForwardTimes* times);
  void Layer(int32_t layer, const Step& step);
  void Attention(int32_t layer, const Step& step);
  void Mlp(int32_t layer, const Step& step);
  void Norm(const float* x, const Buffer& weight, const Step& step);
  // Where attention and MLP write: they add to the residual stream, or, in layers that norm or
  // scale their outputs, they write `branch_`, which AddBranch adds: hidden += RMSNorm(branch), or
  // hidden += residual_scale * branch.
  struct Target {
    float* y;
    bool accumulates;
  };
  Target TargetOf(const LayerSpec& spec);
  // Where a rank writes its summand of that.
  Target PartOf(const Target& target);
  // Where the step's tokens are to be read.
  const int32_t* BeginExchanges(std::span<const int32_t> tokens, Stream& stream);
  // sum = or += what all ranks have written as their parts, n numbers.
  void SumRanks(int64_t n, const Target& sum, Stream& stream);
  void GatherLogits(int64_t num_rows, Stream& stream);
  void AddBranch(const LayerSpec& spec, const Buffer& weight, const Step& step);
  // Where LayerSpec::qk_norm_across_heads.
  void NormAcrossHeads(int32_t layer, int64_t num_rows, Stream& stream);
  void AttendPages(int32_t layer, const Step& step);
  // y = x W^T + bias (+ y), with the adapters' share of the modules from `first` on, which lie side
  // by side in y: the plan's launches.
  struct Projection;
  LaunchPlan PlanOf(const DeviceBatch& batch, const Stream& stream, bool bridged) const;
  void Project(const Projection& projection, int32_t layer, const Step& step);
  // The same of o and down, which lead back to the residual stream: into the layer's target.
  void ProjectBack(const void* x, const GemmWeight& weight, const Buffer& bias,
                   LayerProduct product, LoraModule module, int32_t layer, const Step& step);
  void Launch(const graft::Launch& launch, const Projection& projection, const LoraArgs& lora,
              const Step& step);
  void Multiply(const graft::Launch& launch, const Projection& projection, const LoraArgs& lora,
                const Step& step);
  void RunLora(const graft::Launch& launch, LoraArgs args, const Step& step);
  void Activate(const Projection& projection, const GemmArgs::RowRange& rows, const Step& step);
  LoraBeside MakeLoraBeside(const Projection& projection, int32_t layer, const Step& step);
  // The arguments without segments.
  LoraArgs MakeLoraArgs(const Projection& projection, int32_t layer, const Step& step);

  const ModelConfig config_;
  const ModelWeights& weights_;
  KvPool& pool_;
  const TransformerLimits limits_;
  const DType activation_dtype_;
  const DeviceTraits traits_;
  RankExchange* const ranks_;   // null: there is one rank
  int64_t exchanges_done_ = 0;  // of the step that runs
  const std::vector<RopeTable> ropes_;
  BatchUpload upload_;
  Buffer logits_rows_;                  // int32 [logits_rows_max], of Logits
  int32_t num_rows_ = 0;                // of the last step
  std::unique_ptr<StreamTimer> timer_;  // once somebody asked for times

  // Activations, a row per token. The residual stream and what GEMMs return are fp32; what
  // GEMMs read is in activation_dtype_: fp32 on the CPU, since rounding it to bf16 in every layer
  // costs up to 0.1 of a log-probability (docs/inside/model.md).
  Buffer hidden_;      // fp32 [step_tokens_max, hidden]
  Buffer normed_;      // [step_tokens_max, hidden]
  Buffer branch_;      // fp32 [step_tokens_max, hidden] where LayerSpec::has_branch, else empty
  Buffer qkv_;         // fp32 [step_tokens_max, q + k + v]
  Buffer attended_;    // [step_tokens_max, q]
  Buffer gate_up_;     // fp32 [step_tokens_max, 2 intermediate]
  Buffer activated_;   // [step_tokens_max, intermediate]
  Buffer lora_h_;      // LoraArgs::h of kLoraSlicesMax slices: LoraScratchFloats
  Buffer lora_delta_;  // LoraBeside::delta, of the widest projection
  Buffer lora_words_;  // LoraBeside::words, [num_layers * kLoraModules] of them
  Buffer attention_scratch_;
  Buffer logits_hidden_;  // fp32 [logits_rows_max, hidden]
  Buffer logits_normed_;  // [logits_rows_max, hidden]
  Buffer logits_;         // fp32 [logits_rows_max, vocab]
};

}  // namespace graft
