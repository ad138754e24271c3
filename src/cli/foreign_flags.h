// Flags of vLLM's server, which people who come from it type, and what stands in their place. The
// table of docs/coming-from-vllm.md has the same. Plain data.
#pragma once

#include <span>

#include "options/command.h"

namespace graft {

// The flags for commands that serve a model.
std::span<const ForeignFlag> VllmFlags();

}  // namespace graft
