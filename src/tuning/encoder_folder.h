// An encoder's folder: what reads a document (`encoder`) and what answers behind its memory
// (`decoder`), each a folder of LoRA as any other; graft.json of the first says what a memory is.
// Documents become adapters by it: the decoder's LoRA and a memory of their own. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/status.h"
#include "learn/corpus_run.h"
#include "learn/memory_form.h"
#include "options/option.h"
#include "runtime/base_identity.h"
#include "runtime/runtime.h"
#include "tuning/asked_form.h"
#include "tuning/learn_memory.h"
#include "tuning/learning_plan.h"
#include "tuning/task_set.h"

namespace graft {

inline constexpr OptionWord<MemoryCarrier> kCarrierWords[] = {
    {MemoryCarrier::kKeysValues, "keys-values"}, {MemoryCarrier::kStates, "states"}};
inline constexpr OptionWord<MemoryRows> kMemoryRowsWords[] = {{MemoryRows::kPieces, "pieces"},
                                                              {MemoryRows::kBetween, "between"},
                                                              {MemoryRows::kBehind, "behind"}};
inline constexpr OptionWord<MemoryPlaces> kPlacesWords[] = {{MemoryPlaces::kAsRead, "as-read"},
                                                            {MemoryPlaces::kClose, "close"}};

// What of an encoder its documents must know.
struct EncoderForm {
  MemoryForm memory;
  std::vector<int32_t> compressions;  // that it was taught, ascending
  TeacherPrompts prompts = TeacherPrompts::kPlain;
};
OrderedJson ToJson(const EncoderForm& form);

bool HasEncoder(const std::string& folder);
// kUnimplemented for models that have keys which cannot be moved, or change their head's results.
Status CheckEncodes(const ModelConfig& config);

// Writes both, with `provenance` beside what the form says.
Status WriteEncoder(const std::string& folder, const LoadedModel& model, const EncoderForm& form,
                    OrderedJson provenance, CorpusRun& run);

struct KnownEncoder {
  EncoderForm form;
  TaskSet::FrozenDocument encoder, decoder;
};
// Without its numbers. kNotFound if there is none.
Result<KnownEncoder> OpenEncoder(const std::string& folder, const ModelConfig& config);

// What it takes to make the plan's documents adapters. kInvalidArgument for a document that is
// longer than the model's context.
Result<LearnSizes> SizesByEncoder(const KnownEncoder& encoder, const AskedForm& texts,
                                  int32_t compression, const LearningPlan& plan,
                                  const ModelConfig& config);

// Writes the adapters' folders, and returns their hashes.
Result<std::vector<std::string>> EncodeDocuments(const KnownEncoder& encoder,
                                                 const AskedForm& texts, int32_t compression,
                                                 const LearningPlan& plan, LoadedModel& model,
                                                 const BaseIdentity& base,
                                                 const TrainingLimits& limits);

}  // namespace graft
