#include "bench/synthetic_backend.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include "profile/synthetic_adapter.h"

namespace graft {
namespace {

constexpr char kPrefix[] = "synthetic-";

// The adapter's number, or -1.
int32_t AdapterOf(const std::string& hash) {
  constexpr size_t kPrefixSize = sizeof(kPrefix) - 1;
  if (hash.compare(0, kPrefixSize, kPrefix) != 0) return -1;
  return std::atoi(hash.c_str() + kPrefixSize);
}

}  // namespace

int64_t SyntheticBackend::BytesOf(const ModelConfig& config, DType dtype,
                                  const std::vector<LoraModule>& modules, int32_t rank) {
  int64_t elements = 0;
  for (const LoraModule module : modules) {
    const LoraModuleShape shape = ShapeOfLoraModule(config, module);
    elements += shape.in + shape.out;
  }
  return config.num_layers * elements * rank * DTypeBytes(dtype);
}

int64_t SyntheticBackend::HostBytes(const SyntheticFleet& fleet, const ModelConfig& config,
                                    DType dtype) {
  constexpr int64_t kMargin = int64_t{2} << 20;  // pages of the store that are not full
  int64_t bytes = 0;
  for (const int rank : fleet.ranks) {
    const int64_t rows = BytesOf(config, dtype, fleet.modules, rank);
    bytes += fleet.sources_per_rank * (rows + rows / 16 + kMargin);
  }
  return bytes;
}

Result<std::unique_ptr<SyntheticBackend>> SyntheticBackend::Create(const SyntheticFleet& fleet,
                                                                   const ModelConfig& config,
                                                                   const ServedTypes& types,
                                                                   ThreadPool& threads,
                                                                   HostStore& store) {
  std::unique_ptr<SyntheticBackend> backend(new SyntheticBackend(fleet, config, types, store));
  const auto count = static_cast<int32_t>(fleet.ranks.size()) * fleet.sources_per_rank;
  ASSIGN_OR_RETURN(std::vector<LoraWeights> made,
                   MakeSyntheticAdapters(config, count, fleet.ranks, types.adapters, fleet.seed,
                                         threads, fleet.modules));
  for (size_t i = 0; i < made.size(); ++i) {
    const std::string hash = "source-" + std::to_string(i);
    LoraWeights weights = std::move(made[i]);
    HostAdapter described = DescribeHostAdapter(weights, config, hash, "");
    backend->sources_.push_back(store.Put(std::move(described), std::move(weights)));
    if (!store.Has(hash)) {
      return ResourceExhaustedError(
          "the sources of synthetic adapters do not fit into the host's "
          "memory; lower --sources-per-rank");
    }
  }
  return backend;
}

bool SyntheticBackend::Has(const std::string& hash) const {
  const int32_t adapter = AdapterOf(hash);
  return adapter >= 0 && adapter < fleet_.num_adapters;
}

const HostAdapter& SyntheticBackend::SourceOf(const std::string& hash) const {
  return *sources_[static_cast<size_t>(AdapterOf(hash)) % sources_.size()];
}

std::optional<AdapterFacts> SyntheticBackend::FactsOf(const std::string& hash) const {
  if (!Has(hash)) return std::nullopt;
  AdapterFacts facts = SourceOf(hash).facts;
  facts.hash = hash;
  return facts;
}

HostStore::Held SyntheticBackend::Find(const std::string& hash) {
  if (!Has(hash)) return {};
  HostAdapter adapter = SourceOf(hash);
  adapter.facts.hash = hash;
  return HostStore::Held::Of(std::move(adapter));
}

Result<HostStore::Held> SyntheticBackend::Fetch(const std::string& /*path*/,
                                                const std::string& hash) {
  HostStore::Held held = Find(hash);
  if (!held) return NotFoundError("no synthetic adapter of the name " + hash);
  return held;
}

}  // namespace graft
