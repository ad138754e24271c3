// The pickle of a torch checkpoint, read by a machine that knows tensors alone: a dictionary of
// them by name. It runs nothing, imports nothing, and makes no object but lists, dictionaries,
// numbers, texts and tensors. What asks for anything else is refused by its name. Pure function;
// any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace graft {

inline constexpr int64_t kPickleBytesMax = int64_t{64} << 20;
inline constexpr int64_t kPickleStepsMax = int64_t{1} << 21;
inline constexpr size_t kPickleDimsMax = 8;

// Elements of one dtype, which lie in a file of the archive.
struct PickledStorage {
  std::string_view key;    // its file's name below data/
  std::string_view dtype;  // as safetensors spells it
  int64_t element_bytes = 0;
  int64_t num_elements = 0;  // not negative
};

struct PickledTensor {
  std::string_view name;
  PickledStorage storage;
  int64_t offset = 0;  // in elements; not negative, nor are shape and strides
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements, one for each of `shape`
};

// In the pickle's order; names borrow `pickle`. kUnimplemented names what is no tensor,
// kInvalidArgument says where the pickle makes no sense.
Result<std::vector<PickledTensor>> ReadTensorPickle(std::string_view pickle);

}  // namespace graft
