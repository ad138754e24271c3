// Which rows of a batch make the gradient of which prompt.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "kernels/common/virtual_rows.h"
#include "kernels/virtual_gradient/virtual_gradient.h"
#include "learn/training_batch.h"

namespace graft {

// As VirtualGradientArgs has them.
struct PromptGradients {
  std::vector<VirtualGradientItem> items;
  std::vector<int32_t> places;
  int32_t num_tokens_max = 0;
};

// Of whole prompts whose `place` is the first of their gradients' rows. An adapter's rows follow
// each other in the order of the runs. `gradient_of` an adapter: null, it gets none.
PromptGradients ListPromptGradients(std::span<const VirtualRun> runs,
                                    const std::function<float*(int32_t adapter)>& gradient_of);

// The batch's prefixes, whose gradients' rows follow each other in the order of the sequences.
std::vector<VirtualRun> RunsOfPrefixes(const TrainingBatch& batch);

}  // namespace graft
