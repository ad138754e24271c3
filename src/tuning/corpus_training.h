// An encoder is taught over a corpus (corpus_run.h), in one process after another: each goes on
// from the checkpoint, for so many seconds, and leaves the encoder as far as it has come. Now and
// then it looks at documents that are held out, and a line of JSON tells the curves. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "learn/corpus_run.h"
#include "runtime/base_identity.h"
#include "runtime/runtime.h"
#include "tuning/asked_form.h"
#include "tuning/encoder_folder.h"
#include "tuning/learn_memory.h"
#include "tuning/recipe.h"

namespace graft {

struct CorpusChoices {
  std::string corpus;  // CorpusReader::Open; "": nothing is learned
  std::string folder;
  CorpusSettings settings;  // of which SettingsOf fills in the rest
  std::vector<int32_t> compressions = {4};
  int32_t run_seconds = 0;  // of this process; 0: until all steps are made
  int32_t look_seconds = 60;
  int32_t readers = 4;  // threads that tokenize
  int32_t checkpoint_seconds = 60;
};

// kInvalidArgument for what does not fit the model's context, or more texts than a step takes.
Result<CorpusSettings> SettingsOf(const CorpusChoices& choices, const LearnRecipe& recipe,
                                  const AskedForm& texts, const ModelConfig& config);

LearnSizes SizesOfCorpus(const CorpusSettings& settings, const ModelConfig& config);

// What a look tells: the curves' line, and for people.
struct CorpusProgress {
  int32_t step = 0, num_steps = 0;
  int64_t documents = 0, tokens = 0;
  double seconds = 0.0;          // of this process
  double tokens_a_second = 0.0;  // of documents, since the last look
  double answer_loss = 0.0, piece_loss = 0.0;
  std::vector<CorpusRun::Look> looks;  // one for each compression
};
std::string CurveLine(const CorpusProgress& progress);  // JSON, without a line's end
std::string TextOf(const CorpusProgress& progress);

// Where the curves and the checkpoint are, beside the encoder's folder.
std::string CurvesOf(const std::string& folder);

struct CorpusHost {
  std::function<void(const CorpusProgress& progress)> on_look;
  std::function<void(int32_t step, int32_t num_steps, double loss)> on_step;
  std::function<void(bool resumed, int32_t step)> on_begin;
};
// Returns how many steps are left: 0 once the encoder is done.
Result<int32_t> TeachEncoder(const CorpusChoices& choices, const CorpusSettings& settings,
                             const EncoderForm& form, const AskedForm& texts,
                             const Tokenizer& tokenizer, LoadedModel& model,
                             const BaseIdentity& base, const TrainingLimits& limits,
                             const CorpusHost& host);

}  // namespace graft
