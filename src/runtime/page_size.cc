#include "runtime/page_size.h"

#include <algorithm>

#include "adapters/lora_weights.h"
#include "model/kv_pool.h"
#include "model/lora_module.h"

namespace graft {
namespace {

constexpr int32_t kPageTokensMax = 1 << 20;

int64_t LongestRowBytes(const ModelConfig& config, DType dtype) {
  int64_t elements = 0;
  for (const LoraModule module : config.lora_modules()) {
    const LoraModuleShape shape = ShapeOfLoraModule(config, module);
    elements = std::max({elements, int64_t{shape.in}, int64_t{shape.out}});
  }
  elements = std::max(elements, config.head_block_words());
  return LoraRowBytes(elements, dtype);
}

}  // namespace

int32_t PageTokens(const ModelConfig& config, const ServedTypes& types, int32_t tokens_asked) {
  const int64_t row_bytes = LongestRowBytes(config, types.adapters);
  int32_t tokens = tokens_asked;
  while (MakeKvLayout(config, tokens, types.kv).PageBytes() < row_bytes &&
         tokens < kPageTokensMax) {
    tokens *= 2;
  }
  return tokens;
}

}  // namespace graft
