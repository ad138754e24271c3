// Writes a safetensors file, tensor by tensor, so that no second copy of what is written is needed.
// One thread.
#pragma once

#include <map>
#include <span>
#include <string>

#include "base/status.h"
#include "tensor/buffer.h"

namespace graft {

// What stands before the data of a file with this header: its length in eight little-endian bytes,
// and the header, filled up with blanks to a border of eight.
std::string SafetensorsStart(std::string header);

struct SafetensorsOut {
  std::string name;
  TensorView tensor;  // fp32, bf16 or fp16
};

// In place of what is there: at no moment does `path` hold a part of a file. Names differ.
Status WriteSafetensors(const std::string& path, std::span<const SafetensorsOut> tensors,
                        const std::map<std::string, std::string>& metadata = {});

}  // namespace graft
