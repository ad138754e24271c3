// The options of `graft learn`. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "jobs/document_method.h"
#include "options/option.h"
#include "runtime/runtime_options.h"
#include "tuning/corpus_training.h"

namespace graft {

struct LearnOptions {
  RuntimeOptions runtime;
  std::vector<std::string> files;
  std::vector<std::string> names;  // of the adapters; those that are missing are the files'
  std::string adapters = "adapters";
  bool replace = false;
  std::vector<std::string> questions;
  int answer_tokens = 60;
  DocumentMethod method;
  uint64_t seed = 0;
  CorpusChoices encoder;  // of the learner of that name, and where distill begins
  std::string texts;      // folder of what the base wrote; "": it is not kept
  int together = 4;
  double kept_gib = -1.0;
  int checkpoint_seconds = 60;
  bool quiet = false;

  LearnOptions();
};

std::vector<Option> LearnDocumentRows(LearnOptions& options);
std::vector<Option> LearnTrainingRows(LearnOptions& options);

}  // namespace graft
