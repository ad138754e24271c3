// Virtual tokens: what a prompt- or prefix-tuning adapter puts in front of a request's own tokens.
// A row per token, which takes the place of a token's embedding, or of its keys and values.
#pragma once

#include <cstdint>

namespace graft {

// The rows of one adapter where kernels read them: a pointer for each of its virtual tokens.
using VirtualRows = const void* const*;

// Virtual tokens [token_begin, token_end) of the adapter in a slot, and where they go.
struct VirtualRun {
  int32_t adapter_slot = 0;
  int32_t token_begin = 0;
  int32_t token_end = 0;
  int32_t place = 0;  // as the op says
};

}  // namespace graft
