// Transformer: one step of a decoder-only model over a ragged batch: prefill chunks and decode rows
// of many sequences and adapters, in one invocation (Punica, section 5). It is a list of blocks
// (layers/block.h) between an embedding and a head. A row's logits depend on its own sequence and
// adapter alone, bit for bit, whatever else is in the batch and however its prompt was cut into
// chunks. All scratch is allocated at construction, as SizesOf has it. Engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "layers/block.h"
#include "layers/embedding_layer.h"
#include "layers/head.h"
#include "layers/launch_plan.h"
#include "layers/layer_context.h"
#include "layers/layer_step.h"
#include "layers/rank_exchange.h"
#include "model/config.h"
#include "model/forward_batch.h"
#include "model/kv_pool.h"
#include "model/rope_table.h"
#include "model/transformer_sizes.h"
#include "model/weights.h"
#include "tensor/buffer.h"
#include "tensor/device_traits.h"
#include "tensor/stream.h"
#include "tensor/stream_timer.h"

namespace graft {

class Transformer {
 public:
  // `config` is copied; `weights` and `pool` are borrowed. One of several `ranks` computes its
  // slice of every step, in company of the others: `config` is ShardConfig's, and parts are at
  // least PartFloatsOf. Rank 0 has the logits.
  Transformer(const ModelConfig& config, const ModelWeights& weights, KvPool& pool,
              const TransformerLimits& limits, Stream& stream, RankExchange* ranks = nullptr);
  Transformer(const Transformer&) = delete;
  Transformer& operator=(const Transformer&) = delete;

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

  // Logits of further rows of the last step, where all rows of a prompt are asked for. They replace
  // those that the last call returned. `head`: of these rows, as BatchArrays::head_segments, with
  // the adapters' table; on a GPU segments of up to 64 rows go fastest.
  struct HeadLora {
    std::span<const LoraSegment> segments;
    LoraTable lora;
  };
  const float* Logits(std::span<const int32_t> rows, Stream& stream, const HeadLora& head);

  // Hidden states of rows of the last step behind the final norm, fp32 [rows, hidden], where the
  // next call of Logits or HiddenStates has its own. On a GPU `rows` must be pinned.
  const float* HiddenStates(std::span<const int32_t> rows, Stream& stream);

  // One of several ranks: where a step of so many rows could not be computed to its end, or not
  // even begun, the other ranks' exchanges come to theirs. What comes of the step means nothing.
  // The same after Logits, of no rows.
  void GiveUp(int64_t num_rows, bool has_logits, Stream& stream);

  // When the device has done a step: see RankExchange::CheckAfterStep.
  void CheckRanks() const { context_.exchanges.CheckAfterStep(); }

  // What is fastest to ask for as BatchWeights::lora_beside in steps of so many rows, all drawn:
  // see graft::ChooseBesideScope.
  LoraBesideScope ChooseBesideScope(int64_t num_rows, int32_t rank_bound, int32_t num_tiles) const;

  const ModelConfig& config() const { return config_; }
  const TransformerLimits& limits() const { return limits_; }

 private:
  void CheckBatch(const HostBatch& batch) const;
  LaunchPlan PlanOf(const DeviceBatch& batch, const Stream& stream, bool bridged) const;
  StreamTimer* TimerFor(Stream& stream, const ForwardTimes* times);
  // Rows that the caller chose, where kernels read them.
  std::span<const int32_t> Put(std::span<const int32_t> rows, Stream& stream);
  std::span<const LoraSegment> Put(std::span<const LoraSegment> segments, Stream& stream);

  const ModelConfig config_;
  const TransformerLimits limits_;
  const std::vector<int64_t> rank_sums_;  // StepExchanges::GiveUp's
  const DeviceTraits traits_;
  const std::vector<RopeTable> ropes_;
  LayerContext context_;
  const EmbeddingLayer embedding_;
  std::vector<Block> blocks_;  // [num_layers]
  const Head head_;
  BatchUpload upload_;
  Buffer logits_rows_;                  // int32 [logits_rows_max], of Logits
  Buffer head_segments_;                // [logits_rows_max], of Logits
  int32_t num_rows_ = 0;                // of the last step
  std::unique_ptr<StreamTimer> timer_;  // made when times are first asked for
};

}  // namespace graft
