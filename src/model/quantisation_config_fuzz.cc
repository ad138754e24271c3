// Any bytes as a quantization_config: it is refused, or every module has a scheme that readers can
// take, none, or an error.
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "base/json.h"
#include "model/quantisation_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const graft::Result<graft::Json> json =
      graft::ParseJson(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!json.ok()) return 0;
  const graft::Result<graft::QuantisationConfig> config = graft::ParseQuantisation(*json);
  if (!config.ok()) return 0;
  CHECK(config->format != nullptr && !config->text.empty());
  const graft::Result<graft::ModuleSchemes> schemes = graft::ModuleSchemes::Compile(*config);
  CHECK(schemes.ok()) << schemes.status().ToString();
  for (const std::string module :
       {"model.layers.0.self_attn.q_proj", "model.layers.10.mlp.down_proj",
        "model.layers.1.mlp.gate_up_proj", "lm_head"}) {
    const graft::Result<std::optional<graft::CodeScheme>> scheme = schemes->Of(module);
    if (!scheme.ok() || !scheme->has_value()) continue;
    CHECK((*scheme)->bits == 4 || (*scheme)->bits == 8) << (*scheme)->bits;
    CHECK((*scheme)->group_size >= 0) << (*scheme)->group_size;
  }
  return 0;
}
