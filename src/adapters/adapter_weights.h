// What an adapter brings, converted: LoRA of projections, virtual tokens, or both. Immutable, any
// thread.
#pragma once

#include <optional>
#include <utility>

#include "adapters/lora_weights.h"
#include "adapters/virtual_tokens.h"

namespace graft {

struct AdapterWeights {
  AdapterWeights(LoraWeights of_lora) : lora(std::move(of_lora)) {}  // NOLINT: implicit by design
  AdapterWeights(LoraWeights of_lora, std::optional<VirtualTokens> tokens)
      : lora(std::move(of_lora)), virtual_tokens(std::move(tokens)) {}

  LoraWeights lora;  // may be none
  std::optional<VirtualTokens> virtual_tokens;
};

}  // namespace graft
