// What the sequences of a TrainingBatch name.
#pragma once

#include "learn/trained_lora.h"
#include "learn/trained_prompt.h"

namespace graft {

// Either may be missing.
struct AdapterInTraining {
  TrainedLora* lora = nullptr;
  TrainedPrompt* prompt = nullptr;
  bool is_frozen = false;  // gets no gradients
};

}  // namespace graft
