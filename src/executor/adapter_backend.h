// LoraAdapterBackend: PEFT folders into the slots of a LoraStore. Thread-safe as AdapterBackend
// asks.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "model/config.h"
#include "model/lora_store.h"
#include "step/executor.h"

namespace graft {

class LoraAdapterBackend : public AdapterBackend {
 public:
  // `store` is borrowed; adapters are served in `dtype`.
  LoraAdapterBackend(const ModelConfig& config, DType dtype, LoraStore& store)
      : config_(config), dtype_(dtype), store_(store) {}

  Result<std::string> Hash(const std::string& path) override;
  // Errors carry the path and name the key or tensor.
  Result<AdapterFacts> Load(AdapterSlot slot, const std::string& path) override;
  void Free(AdapterSlot slot) override { store_.Free(slot); }

 private:
  const ModelConfig config_;
  const DType dtype_;
  LoraStore& store_;
};

// What `graft adapters inspect` tells of a folder that this model can serve: identity, ranks,
// scales and layers per module, bytes. Fails with the reason that a load would.
Result<OrderedJson> InspectAdapter(const std::string& path, const ModelConfig& config, DType dtype);

}  // namespace graft
