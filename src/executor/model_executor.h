// ModelExecutor: a StepPlan through the transformer and the sampler of one device. Holds the
// sampler state of every sequence slot. Engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/ragged_batch.h"
#include "executor/sequence_sampler.h"
#include "model/lora_store.h"
#include "model/transformer.h"
#include "step/executor.h"

namespace graft {

class ModelExecutor : public Executor {
 public:
  // Everything is borrowed. `loras` is null for a server without LoRA, whose plans name no adapter.
  ModelExecutor(Transformer& transformer, const LoraStore* loras, const ExecutorLimits& limits,
                Stream& stream);

  const ExecutorLimits& limits() const override { return limits_; }
  StepResult Run(const StepPlan& plan) override;

 private:
  void StartSequences(const StepPlan& plan);
  const float* Forward(ForwardTimes* times);
  void SampleSequences(const StepPlan& plan, const float* logits, StepResult* result);
  // Log-probabilities of the prompt tokens after a sequence's rows (the last row may have none).
  void AddPromptLogprobs(const PlannedSequence& planned, int32_t row_begin, ForwardTimes* times,
                         SequenceResult* result);

  Transformer& transformer_;
  const LoraStore* const loras_;
  const ExecutorLimits limits_;
  Stream& stream_;
  RaggedBatch batch_;
  std::vector<SequenceSampler> samplers_;  // [sequences_max]
  // Scratch of one step.
  std::vector<SamplingRow> sampling_rows_;
  std::vector<SampledToken> sampled_;
  std::vector<int32_t> logit_rows_;
};

}  // namespace graft
