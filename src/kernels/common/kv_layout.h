// Where a position's keys and values lie in the page pool. Punica's separable layout (section 5.4),
// page outermost: a sequence owns whole pages, and each page holds page_tokens positions of every
// layer:
//   pool [num_pages][num_layers][2 (k, v)][num_kv_heads][page_tokens][head_dim]
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace graft {

struct KvLayout {
  int32_t num_layers = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t page_tokens = 0;
  DType dtype = DType::kF32;

  // constexpr, so that kernels of a GPU may call them.
  // Elements of one head's positions in one page, the innermost contiguous run.
  constexpr int64_t HeadElements() const { return int64_t{page_tokens} * head_dim; }
  constexpr int64_t KeyElements() const { return HeadElements() * num_kv_heads; }
  constexpr int64_t LayerElements() const { return 2 * KeyElements(); }
  constexpr int64_t PageElements() const { return LayerElements() * num_layers; }
  constexpr int64_t PageBytes() const { return PageElements() * DTypeBytes(dtype); }

  // Element offset of (page, layer, head, position in page, dimension 0); values follow keys at
  // KeyElements() further on.
  constexpr int64_t KeyOffset(int64_t page, int32_t layer, int32_t kv_head, int32_t slot) const {
    return page * PageElements() + layer * LayerElements() + kv_head * HeadElements() +
           int64_t{slot} * head_dim;
  }
};

}  // namespace graft
