// Documents by an encoder: it is learned from them, or was and lies in a folder; then each document
// of the plan becomes a bundle of the decoder's LoRA and its own virtual tokens. One thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "learn/encoder_run.h"
#include "runtime/runtime.h"
#include "tuning/learn_memory.h"
#include "tuning/learning_plan.h"
#include "tuning/training_group.h"

namespace graft {

// What is asked of an encoder besides a document's method.
struct EncoderChoices {
  std::string folder = "encoder";  // bundle `encoder`, LoRA folder `decoder`
  EncoderSettings settings;        // the method and the model say the rest: see EncoderSettingsOf
};

// Whether the folder has an encoder.
bool HasEncoder(const std::string& folder);

// kUnimplemented for an embedder of a model as wide as this one.
Result<EncoderSettings> EncoderSettingsOf(const EncoderChoices& choices, const LearningPlan& plan,
                                          const ModelConfig& config);

// What training it takes besides an adapter of LoRA and virtual tokens: of a trained encoder that
// is itself, else the decoder.
LearnSizes::Frozen EncoderSizes(std::span<const size_t> document_tokens,
                                const EncoderSettings& settings, const ModelConfig& config,
                                DType dtype);
// What the plan takes (SizesOfPlan), by an encoder.
Result<LearnSizes> SizesByEncoder(const EncoderChoices& choices, const LearningPlan& plan,
                                  const ModelConfig& config);

struct EncoderReport {
  EncoderRun::Scores scores;        // of the answers that there are
  int32_t num_steps = 0;            // 0: the encoder was there
  std::vector<std::string> hashes;  // of the documents' adapters
};

// Takes the documents' data. The folder's name with .learning is a checkpoint while it learns.
// kFailedPrecondition where an encoder that was learned answers no better than the base.
Result<EncoderReport> LearnByEncoder(const EncoderChoices& choices, LearningPlan& plan,
                                     LoadedModel& model, const BaseIdentity& base,
                                     const TrainingLimits& limits, TrainingHost& host,
                                     int checkpoint_seconds);

}  // namespace graft
