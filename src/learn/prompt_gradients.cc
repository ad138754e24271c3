#include "learn/prompt_gradients.h"

#include <algorithm>

#include "base/check.h"

namespace graft {

PromptGradients ListPromptGradients(std::span<const VirtualRun> runs,
                                    const std::function<float*(int32_t)>& gradient_of) {
  std::vector<VirtualRun> sorted(runs.begin(), runs.end());
  std::ranges::stable_sort(sorted, {}, &VirtualRun::adapter_slot);
  PromptGradients list;
  float* gradient = nullptr;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const VirtualRun& run = sorted[i];
    CHECK_EQ(run.token_begin, 0);
    const bool is_new = i == 0 || run.adapter_slot != sorted[i - 1].adapter_slot;
    if (is_new) gradient = gradient_of(run.adapter_slot);
    if (gradient == nullptr) continue;
    const auto place = static_cast<int32_t>(list.places.size());
    if (is_new) list.items.push_back({gradient, run.token_end, place, place});
    CHECK_EQ(list.items.back().num_tokens, run.token_end);
    list.places.push_back(run.place);
    ++list.items.back().place_end;
    list.num_tokens_max = std::max(list.num_tokens_max, run.token_end);
  }
  return list;
}

std::vector<VirtualRun> RunsOfPrefixes(const TrainingBatch& batch) {
  std::vector<VirtualRun> runs = batch.keys_values;
  int32_t row = 0;
  for (VirtualRun& run : runs) {
    run.place = row;
    row += run.token_end - run.token_begin;
  }
  return runs;
}

}  // namespace graft
