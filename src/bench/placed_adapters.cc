#include "bench/placed_adapters.h"

#include <algorithm>
#include <utility>

#include "profile/synthetic_adapter.h"

namespace graft {

Result<PlacedAdapters> PlaceSyntheticAdapters(const LoadedModel& model,
                                              const std::vector<int>& ranks, uint64_t seed,
                                              bool cuts_both_sides, Runtime& runtime) {
  constexpr int32_t kCutMax = 4;
  const int32_t num_slots = runtime.limits().adapters_max;
  ASSIGN_OR_RETURN(std::vector<LoraWeights> adapters,
                   MakeSyntheticAdapters(cuts_both_sides ? model.config : model.rank_config,
                                         cuts_both_sides ? std::min(num_slots, kCutMax) : num_slots,
                                         ranks, model.weights.dtype, seed, *model.threads));
  PlacedAdapters placed;
  for (int32_t slot = 0; slot < num_slots; ++slot) {
    LoraWeights& adapter = adapters[static_cast<size_t>(slot) % adapters.size()];
    if (!cuts_both_sides) {
      placed.bytes.push_back(adapter.bytes());
      runtime.loras().Set(slot, std::move(adapter));
      continue;
    }
    const CutAdapter& cut =
        placed.cuts.emplace_back(CutBothSides(adapter, model.config, model.shard, model.stream));
    placed.bytes.push_back(cut.bytes());
    runtime.loras().Place(slot, cut.matrices, cut.bytes());
  }
  return placed;
}

}  // namespace graft
