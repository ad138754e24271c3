// What training takes: the terms of its sum, and how much of a forward it keeps for the
// backward in what is left. Pure functions, but for the machine that they ask about. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "adapters/prompt_config.h"
#include "base/status.h"
#include "learn/learner.h"
#include "learn/trainer.h"
#include "learn/training_sizes.h"
#include "runtime/memory_sum.h"
#include "runtime/runtime_options.h"
#include "runtime/server_memory.h"
#include "tuning/recipe.h"

namespace graft {

struct LearnSizes {
  int32_t num_adapters = 1;  // that learn at once
  int32_t batch = 8;         // examples of an adapter's step
  int32_t example_tokens_max = 0;
  int32_t rank = 16;           // 0: no LoRA
  int32_t virtual_tokens = 0;  // in front of every example
  VirtualTokenKind kind = VirtualTokenKind::kEmbedding;
  LearnerDataSize data;  // of all documents that are prepared together
  // Adapters that are there and learn nothing: the largest, texts that one reads at once, their
  // bytes in the host's memory, and what a GPU has of them, too.
  struct Frozen {
    int32_t rank = 0, embeddings = 0, keys_values = 0, sequences = 0;
    int64_t bytes = 0;
    std::vector<TrainedShape> shapes;
  } frozen;
  bool chooses = false;    // tokens are drawn from what training says
  double kept_gib = -1.0;  // of activations and transposed weights; below 0: half of what is left
  int threads = 1;
  std::string what_to_do;  // beside the serving, where that is too much; "": by its method
};

// An adapter's part of Frozen::bytes.
int64_t BytesOnHost(const TrainedShape& shape, const ModelConfig& config);

// The sizes for adapters of these documents. The caller sets how many learn at once, what is kept
// and the threads.
LearnSizes SizesOfDocuments(const LearnRecipe& recipe, const Learner& learner,
                            std::span<const LearnerInput* const> inputs);

// Plans the limits of a training, and adds its memory to `sum`, which has the weights' terms. What
// is kept from the forward to the backward is chosen by what the sum then leaves of the budget.
TrainingLimits PlanTraining(const LearnSizes& sizes, const ServedShape& shape,
                            const MemoryBudget& budget, MemorySum* sum);

// The plan of a process that does nothing but learn: before it a server writes, where `serves`, or
// after it one answers, and training must fit in place of that. Borrows `options`.
CheckMemory LearningFits(const RuntimeOptions& options, const LearnSizes& sizes, bool serves,
                         TrainingLimits* limits);

// kInternal for examples that are longer than they were reckoned with: a bug, which is to cost no
// more than their document.
Status CheckExamples(const LearnerData& data, const LearnSizes& sizes);

// The memory plan of a process that also serves. Training gets `bytes_max` of the device, and
// beside a GPU what is free of the host's memory; examples get a part of the host's.
// kResourceExhausted: that is less than the least that training takes. kUnavailable: beside a GPU,
// the host has too little for now.
struct TrainingFit {
  TrainingLimits limits;
  int64_t data_bytes_max = 0;
};
Result<TrainingFit> FitTraining(const LearnSizes& sizes, const ServedShape& shape,
                                int64_t bytes_max, const MemoryBudget& budget);

}  // namespace graft
