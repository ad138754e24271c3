// OwnedLora: one adapter's matrices in memory of its own. Movable: pointers stay valid. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/lora/lora.h"
#include "tensor/buffer.h"

namespace graft {

struct OwnedLora {
  // [ModelShape::num_lora_matrices]; rank 0 where the adapter leaves a module alone.
  std::vector<LoraMatrix> matrices;
  std::vector<const void*> rows;  // of all matrices, which point into this; it points into the
  Buffer buffer;                  // bytes of the rows

  int64_t bytes() const {
    return buffer.bytes() + static_cast<int64_t>(rows.size() * sizeof(const void*)) +
           static_cast<int64_t>(matrices.size() * sizeof(LoraMatrix));
  }
};

}  // namespace graft
