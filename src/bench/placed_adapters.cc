#include "bench/placed_adapters.h"

#include <utility>

#include "profile/synthetic_adapter.h"

namespace graft {

Result<std::vector<int64_t>> PlaceSyntheticAdapters(const LoadedModel& model,
                                                    const std::vector<int>& ranks, uint64_t seed,
                                                    Runtime& runtime) {
  ASSIGN_OR_RETURN(std::vector<LoraWeights> adapters,
                   MakeSyntheticAdapters(model.rank_config, runtime.limits().adapters_max, ranks,
                                         model.weights.types.adapters, seed, *model.threads));
  std::vector<int64_t> bytes;
  for (LoraWeights& adapter : adapters) {
    const auto slot = static_cast<int32_t>(bytes.size());
    bytes.push_back(adapter.bytes());
    runtime.loras().Set(slot, std::move(adapter).TakeRows());
  }
  return bytes;
}

}  // namespace graft
