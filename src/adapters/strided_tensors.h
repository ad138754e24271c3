// Tensors as other programs lay them out, written as the safetensors file that PEFT writes of them:
// the same bytes, so that an adapter has the same content hash whichever of its files is there.
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/file_bytes.h"

namespace graft {

struct StridedTensor {
  std::string name;   // UTF-8
  std::string dtype;  // as safetensors spells it
  int64_t element_bytes = 0;
  std::vector<int64_t> shape;    // no number is negative
  std::vector<int64_t> strides;  // in elements, one for each of `shape`; none is negative
  const char* data = nullptr;    // the first element; borrowed, may be misaligned
};

// What a tensor reads of its bytes from `data` on; kInvalidArgument where that passes 63 bits.
Result<int64_t> ReachOf(const StridedTensor& tensor);

// As safetensors' library orders and aligns them. kInvalidArgument: more than `bytes_max`, or a
// name twice.
Result<FileBytes> WriteStridedTensors(std::vector<StridedTensor> tensors, int64_t bytes_max);

}  // namespace graft
