// Documents by an encoder: it is learned from them, or was and lies in a folder; then each document
// becomes a bundle of the decoder's LoRA and its own virtual tokens. One thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/status.h"
#include "learn/encoder_run.h"
#include "runtime/runtime.h"
#include "tuning/learn_memory.h"

namespace graft {

struct EncodedDocument {
  std::string name;
  std::string folder;  // of its adapter
  EncoderDocument document;
  OrderedJson origin;
};

struct EncoderOrder {
  std::string folder;  // of the encoder: bundle `encoder`, LoRA folder `decoder`
  EncoderSettings settings;
  std::vector<EncodedDocument> documents;
  int32_t checkpoint_seconds = 60;
  // It goes on from a checkpoint.
  std::function<void(int32_t step, int32_t total)> on_resume;
  // Steps done, of all, and the last loss.
  std::function<void(int32_t done, int32_t total, double loss)> on_step;
};

// Whether the folder has an encoder.
bool HasEncoder(const std::string& folder);

// What training it takes besides an adapter of LoRA and virtual tokens: of a trained encoder that
// is itself, else the decoder.
LearnSizes::Frozen EncoderSizes(std::span<const size_t> document_tokens,
                                const EncoderSettings& settings, const ModelConfig& config,
                                DType dtype);

struct EncoderReport {
  EncoderRun::Scores scores;        // of the answers that there are
  int32_t num_steps = 0;            // 0: the encoder was there
  std::vector<std::string> hashes;  // of the documents' adapters
};

// The folder's name with .learning is a checkpoint while it learns. kFailedPrecondition where an
// encoder that was learned answers no better than the base.
Result<EncoderReport> LearnByEncoder(EncoderOrder order, LoadedModel& model,
                                     const TrainingLimits& limits);

}  // namespace graft
