// An encoder's folder: what reads a document (`encoder`) and what answers behind its memory
// (`decoder`), each a folder of LoRA as any other; graft.json of the first says what a memory is.
// One thread.
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
#include "text/tokenizer.h"
#include "tuning/recipe.h"
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

// kNotFound if there is no encoder in the folder, kFailedPrecondition if it was taught on another
// base than the model in `model_dir`.
Status CheckEncoderOf(const std::string& folder, const std::string& model_dir);
// What its files take, which stay in memory while it is known.
Result<int64_t> EncoderBytes(const std::string& folder);

// Writes both, with `provenance` beside what the form says.
Status WriteEncoder(const std::string& folder, const LoadedModel& model, const EncoderForm& form,
                    OrderedJson provenance, CorpusRun& run);

// An encoder's files in memory, and what stands before a document that it reads.
struct KnownEncoder {
  EncoderForm form;
  std::vector<int32_t> start;
  TaskSet::FrozenDocument encoder, decoder;

  // The one that is asked for; 0: the least that it was taught.
  int32_t CompressionOr(int32_t asked) const {
    return asked > 0 ? asked : form.compressions.front();
  }
};
// Fails as CheckEncoderOf and CheckEncodes do.
Result<KnownEncoder> OpenEncoder(const std::string& folder, const std::string& model_dir,
                                 const ModelConfig& config, const Tokenizer& tokenizer);

}  // namespace graft
