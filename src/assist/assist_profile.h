// AssistProfile: what the CPU assist's work costs one worker, measured at start on the model's
// shapes, and the split of a job's rows over the workers (CaraServe, section 4.2). Reading an
// adapter's matrices costs the same for any number of rows. So another worker is used only if its
// rows cost as much as this reading, and few rows use few cores. Plain data.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "model/config.h"
#include "model/lora_module.h"
#include "step/bridge_rates.h"
#include "tensor/dtype.h"

namespace graft {

struct AssistCost {
  double fixed_us = 0.0;
  double row_us = 0.0;
};

class AssistProfile {
 public:
  static constexpr std::array<int32_t, 5> kRanks = {8, 16, 32, 64, 128};
  static constexpr std::array<LoraModule, 4> kFirstModules = {LoraModule::kQ, LoraModule::kO,
                                                              LoraModule::kGate, LoraModule::kDown};

  AssistProfile() = default;
  // Takes a fraction of a second. Activations are of the adapter's dtype unless `x_is_fp32`.
  static AssistProfile Measure(const ModelConfig& config, DType dtype, bool x_is_fp32);

  // The cost of the projection that begins with module `first`, at the nearest rank measured.
  const AssistCost& Of(LoraModule first, int32_t rank) const;
  AssistCost& Of(LoraModule first, int32_t rank) {
    return const_cast<AssistCost&>(static_cast<const AssistProfile*>(this)->Of(first, rank));
  }

 private:
  std::array<std::array<AssistCost, kRanks.size()>, kFirstModules.size()> costs_{};
};

// The rates that the engine learns: one for all projections, which cost about the same per byte.
BridgeRates RatesOf(const AssistProfile& profile, const ModelConfig& config, DType dtype,
                    int32_t num_workers);

// The modules of a projection: the first, and those that share its x.
std::span<const LoraModule> ModulesOfProjection(LoraModule first);

// Rows of one adapter in a job.
struct AssistPart {
  int32_t num_rows = 0;
  AssistCost cost;
};

// Cuts the rows of all parts, one after the other, into shares of equal cost, at most
// `num_workers`: share i is rows [share_begin[i], share_begin[i + 1]). Returns how many.
int32_t SplitRows(std::span<const AssistPart> parts, int32_t num_workers, int32_t* share_begin);

}  // namespace graft
