// Virtual tokens: what a prompt- or prefix-tuning adapter puts in front of a request's own tokens.
// A row per token, which takes the place of a token's embedding, or of its keys and values.
#pragma once

#include <cstdint>

#include "base/check.h"

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

// CHECKs the runs of an op's arguments, where the CPU can read them: each has tokens, at most
// run_tokens_max of them, and is of a slot that has rows.
template <typename Args>
void CheckVirtualRuns(const Args& args) {
  for (int32_t i = 0; i < args.num_runs; ++i) {
    const VirtualRun& run = args.runs[i];
    CHECK(run.token_begin >= 0 && run.token_begin < run.token_end && run.place >= 0) << "run " << i;
    CHECK_LE(run.token_end - run.token_begin, args.run_tokens_max) << "run " << i;
    CHECK(args.table[run.adapter_slot] != nullptr)
        << "slot " << run.adapter_slot << " has no virtual tokens";
  }
}

}  // namespace graft
