// Adapters with random weights for benchmarks, made in memory as PEFT would write them and read by
// the same loader as real ones. Main thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "adapters/lora_weights.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "model/config.h"
#include "model/lora_module.h"

namespace graft {

// An adapter of these modules of every layer, at `rank`.
Result<LoraWeights> MakeSyntheticAdapter(const ModelConfig& model, int32_t rank, DType dtype,
                                         uint64_t seed,
                                         std::span<const LoraModule> modules = kAllLoraModules);

// The same as a PEFT folder, in bf16. Makes the folders that lead to it.
Status WriteSyntheticAdapter(const std::string& path, const ModelConfig& model, int32_t rank,
                             uint64_t seed, std::span<const LoraModule> modules = kAllLoraModules);

// LoraWeights::bytes of it.
int64_t SyntheticAdapterBytes(const ModelConfig& model, int32_t rank, DType dtype,
                              std::span<const LoraModule> modules = kAllLoraModules);
// The same of `count` of them, ranks in turn.
int64_t SyntheticAdaptersBytes(const ModelConfig& model, int32_t count,
                               const std::vector<int>& ranks, DType dtype,
                               std::span<const LoraModule> modules = kAllLoraModules);

// `count` of them, seeds from `seed` on, ranks in turn; made on all threads.
Result<std::vector<LoraWeights>> MakeSyntheticAdapters(
    const ModelConfig& model, int32_t count, const std::vector<int>& ranks, DType dtype,
    uint64_t seed, ThreadPool& threads, std::span<const LoraModule> modules = kAllLoraModules);

}  // namespace graft
