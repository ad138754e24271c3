// ModelExecutor: a StepPlan through the transformer and the sampler of one device. Holds the
// sampler state of every sequence slot. Engine thread only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "adapters/page_arrivals.h"
#include "base/device_turns.h"
#include "base/turns.h"
#include "executor/decode_graphs.h"
#include "executor/pooled_states.h"
#include "executor/ragged_batch.h"
#include "executor/rank_link.h"
#include "executor/sequence_sampler.h"
#include "executor/step_bridge.h"
#include "layers/lora_store.h"
#include "model/transformer.h"
#include "step/executor.h"
#include "tensor/cuda_memory.h"

namespace graft {

// The parts that some servers have and others do not.
struct ExecutorParts {
  const PageArrivals* arrivals = nullptr;  // null: plans name what is wholly there alone
  StepBridge* bridge = nullptr;            // null: all steps wait for what arrives
  BridgeRates bridge_rates;                // what it costs
  RankLink* ranks = nullptr;               // null: there is one rank
  Turns* turns = nullptr;                  // null: no other work beside the steps of a CPU
  DeviceTurns* device_turns = nullptr;     // null: none beside those of a GPU
};

class ModelExecutor : public Executor {
 public:
  // Everything is borrowed. `loras` is null for a server without LoRA; its plans name no adapter.
  ModelExecutor(Transformer& transformer, const LoraStore* loras, const ExecutorLimits& limits,
                Stream& stream, const ExecutorParts& parts = {});

  // What it allocates, without graphs and what grows with lists of tokens that requests bring
  // along.
  static BytesNeeded BytesFor(const TransformerLimits& limits, const ModelConfig& config,
                              const Device& device);

  const ExecutorLimits& limits() const override { return limits_; }
  BridgeRates bridge_rates() const override { return parts_.bridge_rates; }
  void SetWorkWhileBlocked(std::function<void()> work) override {
    gate_.SetWorkWhileBlocked(std::move(work));
  }
  void SetMasks(MaskSource* masks) override { masks_ = masks; }
  // On a GPU the step is launched when Begin returns, but for the draws of a plan that is ahead and
  // has masks; on the CPU it runs in Finish.
  void Begin(const StepPlan& plan) override;
  void Continue() override;
  bool Wait(const std::atomic<bool>& interrupted, int64_t timeout_ns) override;
  StepResult Finish() override;
  bool IsFollowed() const override {
    return parts_.device_turns != nullptr && parts_.device_turns->has_piece();
  }
  void OnIdle() override {
    if (parts_.turns != nullptr) parts_.turns->OnIdle();
    if (parts_.device_turns != nullptr) parts_.device_turns->OnIdle();
  }

  // Runs a step kernel by kernel and times its parts as the device sees them; for benches. What it
  // drew is dropped.
  ForwardTimes Profile(const StepPlan& plan);

  // Records the graphs of decode steps for the adapters that are loaded, and for ranks of up to
  // `rank_max`; a step without its graph records it first. GPUs only; before the first step.
  void RecordGraphs(const DecodeGraphs::Progress& progress = {}, int32_t rank_max = 0);

 private:
  // A step that was begun and may have ended.
  struct RunningStep {
    RunningStep(const Device& device, int32_t rows_max)
        : begun(device, true),
          done(device, true),
          sampled(rows_max * int64_t{sizeof(SampledToken)}, device) {}
    // `num_rows` results, as if nothing had been drawn.
    std::span<SampledToken> ResetSampled(size_t num_rows) const;

    const StepPlan* plan = nullptr;
    Status status;
    bool is_bridged = false;
    const float* logits = nullptr;
    bool draws_later = false;       // in Continue
    std::vector<uint8_t> left_out;  // by sequence of the plan, once it draws: it has no mask
    int64_t begin_ns = 0;
    StreamEvent begun, done;  // as the device saw it
    PinnedBuffer sampled;     // SampledToken [logits rows]
  };

  // Rows of a prompt. The device forms their log-probabilities while the host reads those before.
  struct PromptBatch {
    PromptBatch(const Device& device, int32_t rows_max)
        : rows(rows_max * int64_t{sizeof(int32_t)}, device),
          sampled(rows_max * int64_t{sizeof(SampledToken)}, device),
          done(device) {}
    PinnedBuffer rows;     // int32_t [logits rows]: of the step
    PinnedBuffer sampled;  // SampledToken [logits rows]
    int32_t num_rows = 0;
    StreamEvent done;
  };

  // A step is launched, or the rest of it, while it lives.
  class LaunchTurn;

  RunningStep& AddStep(const StepPlan& plan);
  RunningStep& first_step();
  // The device's idle time before `step`, which was begun first; -1 if unknown.
  int64_t IdleNsBefore(const RunningStep& step) const;
  // Does a part of the step, unless one failed before; a lack of memory is the step's status.
  void Try(RunningStep& step, const std::function<void()>& part);
  void FailWithRanks(RunningStep& step);
  void Launch(RunningStep& step, ForwardTimes* times);
  void StartSequences(const StepPlan& plan);
  const float* Forward(RunningStep& step, ForwardTimes* times);
  void WithRanks(int64_t num_rows, bool has_logits, const std::function<void()>& part);
  void SampleRows(RunningStep& step);
  void FillMasks(RunningStep& step);
  void TakeSampled(const RunningStep& step, StepResult* result);
  // Records the step's end anew, once more was computed for it, and waits for that.
  void EndLater(RunningStep& step);
  void TakePromptLogprobs(RunningStep& step, StepResult* result);
  // One vector of a prompt's rows, once its last row was computed.
  void TakeEmbeddings(RunningStep& step, StepResult* result);
  // The table of adapters; its bound on ranks is that of the batch.
  LoraTable Adapters() const;
  std::span<const LoraSegment> HeadSegments(std::span<const int32_t> rows);
  // Log-probabilities of the prompt tokens after a sequence's rows (the last row may have none).
  void AddPromptLogprobs(const RunningStep& step, size_t idx, SequenceResult* result);
  void LaunchPromptLogprobs(int32_t row_begin, std::span<const int32_t> tokens, int32_t num_top,
                            PromptBatch* batch);
  static void TakePromptLogprobs(const PromptBatch& batch, SequenceResult* result);

  Transformer& transformer_;
  const LoraStore* const loras_;
  const ExecutorParts parts_;
  const ExecutorLimits limits_;
  Stream& stream_;
  RaggedBatch batch_;
  ArrivalGate gate_;
  std::unique_ptr<DecodeGraphs> graphs_;
  std::vector<SequenceSampler> samplers_;  // [sequences_max]
  PooledStates pooled_;
  // In turns: up to two steps that were begun, and the last finished, as the next is timed by its
  // end.
  static constexpr size_t kSteps = 3;
  std::array<RunningStep, kSteps> steps_;
  uint64_t num_begun_ = 0;
  uint64_t num_finished_ = 0;
  int64_t last_finish_ns_ = 0;
  int64_t last_look_ns_ = 0;  // at the other ranks
  int64_t sampling_ns_ = 0;
  // Scratch of one step.
  std::vector<SamplingRow> sampling_rows_;
  MaskSource* masks_ = nullptr;
  std::vector<size_t> masked_;   // sequences of the plan
  std::vector<uint32_t> words_;  // of their masks
  SamplingScratch sampling_scratch_;
  Buffer drawn_tokens_;  // of the step launched last, on a GPU
  static constexpr size_t kPromptBatches = 2;
  std::array<PromptBatch, kPromptBatches> prompt_batches_;  // taking turns
};

}  // namespace graft
