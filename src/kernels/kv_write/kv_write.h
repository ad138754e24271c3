// Writes this step's keys and values into their pages, before attention reads them.
#pragma once

#include <cstdint>

#include "kernels/common/kv_layout.h"
#include "tensor/stream.h"

namespace graft {

struct KvWriteArgs {
  KvLayout layout;
  int32_t layer = 0;
  void* pool = nullptr;
  const float* k = nullptr;  // [num_rows, num_kv_heads, head_dim], rows row_stride elements apart
  const float* v = nullptr;  // of k's shape, with k's row_stride
  int64_t row_stride = 0;
  // [num_rows] page id of the row's position; below 0: the row is written nowhere (it pads a batch
  // to the size that a captured graph was made for).
  const int32_t* row_page = nullptr;
  const int32_t* row_slot = nullptr;  // [num_rows] position within the page
  int32_t num_rows = 0;
};

void KvWrite(const KvWriteArgs& args, Stream& stream);

}  // namespace graft
