#include "adapters/peft_bytes.h"

#include <utility>

#include "adapters/mlx_adapter.h"
#include "adapters/torch_weights.h"

namespace graft {

bool IsOtherForm(std::string_view config, std::string_view weights_begin) {
  return LooksLikeTorch(weights_begin) || IsMlxConfig(config);
}

Result<PeftBytes> ToPeftBytes(std::string_view config, FileBytes weights,
                              const std::string& label) {
  if (IsMlxConfig(config)) return PeftOfMlx(config, std::move(weights), label);
  Result<FileBytes> read = SafetensorsOfTorch(weights.view());
  if (!read.ok()) return read.status().WithContext(label);
  return PeftBytes{std::string(config), std::move(*read)};
}

}  // namespace graft
