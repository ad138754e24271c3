// VirtualKv: an adapter's own keys and values (prefix tuning) into the pages of sequences, all
// layers at once. Virtual token i is at position i of its sequence; its row is [num_layers][2 (k,
// v)] [num_kv_heads][head_dim] as the pages have them, keys without rotation or with one, as they
// were trained.
#pragma once

#include <cstdint>

#include "kernels/common/kv_layout.h"
#include "kernels/common/virtual_rows.h"
#include "tensor/stream.h"

namespace graft {

struct VirtualKvArgs {
  KvLayout layout;
  void* pool = nullptr;
  const VirtualRows* table = nullptr;  // by adapter slot; rows are of layout.dtype
  const VirtualRun* runs = nullptr;    // [num_runs]; `place` is the sequence's first one of `pages`
  int32_t num_runs = 0;
  int32_t run_tokens_max = 0;      // no run is longer
  const int32_t* pages = nullptr;  // of all sequences
};

void VirtualKv(const VirtualKvArgs& args, Stream& stream);

}  // namespace graft
