// Thousands of adapters for benches, without a disk and without memory for all of them on the host.
// A few real adapters of each rank, with random weights, stand behind many hashes. A load copies
// the real adapter's bytes from page-locked memory into the load's own pages, as for any other
// adapter. Only the source is shared, and no file is read. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "adapters/lora_weights.h"
#include "adapters/peft_backend.h"
#include "base/status.h"
#include "base/thread_pool.h"
#include "model/lora_module.h"

namespace graft {

struct SyntheticFleet {
  int32_t num_adapters = 0;
  std::vector<int> ranks;  // of adapters 0, 1, ..., in turn
  std::vector<LoraModule> modules;
  int32_t sources_per_rank = 4;
  uint64_t seed = 1;

  static std::string HashOf(int32_t adapter) { return "synthetic-" + std::to_string(adapter); }
};

class SyntheticBackend : public PeftBackend {
 public:
  // The store keeps the sources: its limit must leave them room (HostBytes).
  static Result<std::unique_ptr<SyntheticBackend>> Create(const SyntheticFleet& fleet,
                                                          const ModelConfig& config,
                                                          const ServedTypes& types,
                                                          ThreadPool& threads, HostStore& store);

  Result<HostStore::Held> Fetch(const std::string& path, const std::string& hash) override;
  std::optional<AdapterFacts> FactsOf(const std::string& hash) const override;
  HostStore::Held Find(const std::string& hash) override;
  bool Has(const std::string& hash) const override;

  // Bytes of one adapter's rows.
  static int64_t BytesOf(const ModelConfig& config, DType dtype,
                         const std::vector<LoraModule>& modules, int32_t rank);
  // Bytes of the sources in the store, with what packing may waste.
  static int64_t HostBytes(const SyntheticFleet& fleet, const ModelConfig& config, DType dtype);

 private:
  SyntheticBackend(const SyntheticFleet& fleet, const ModelConfig& config, const ServedTypes& types,
                   HostStore& store)
      : PeftBackend(config, types, store), fleet_(fleet) {}

  const HostAdapter& SourceOf(const std::string& hash) const;

  const SyntheticFleet fleet_;
  std::vector<HostStore::Held> sources_;  // [sources_per_rank][ranks]
};

}  // namespace graft
