// Any bytes as adapter_config.json: they are refused, or give targets within their limits. The
// input's regexes run against real paths, so this also fuzzes the limits of regexes.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "adapters/peft_config.h"
#include "adapters/peft_modules.h"
#include "base/check.h"
#include "kernels/lora/lora.h"

namespace {

constexpr int32_t kLayers = 3;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const graft::Result<graft::PeftConfig> config = graft::ParsePeftConfig(text);
  if (!config.ok()) {
    CHECK(!config.status().message().empty());
    return 0;
  }
  CHECK(config->rank >= 1 && config->rank <= graft::kLoraRankMax);
  CHECK(std::isfinite(config->alpha));
  graft::ModelConfig model;
  model.num_layers = kLayers;
  const auto targets = graft::ResolveLoraTargets(*config, model);
  if (!targets.ok()) return 0;
  CHECK(!targets->empty());
  int previous = -1;
  for (const graft::LoraTarget& target : *targets) {
    const int at = static_cast<int>(model.lora_matrix(target.layer, target.module));
    CHECK(at > previous && target.layer < kLayers);
    previous = at;
    CHECK(target.rank >= 1 && target.rank <= graft::kLoraRankMax);
    CHECK(std::isfinite(target.scale));
  }
  return 0;
}
