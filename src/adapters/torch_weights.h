// adapter_model.bin, as torch.save writes it: a zip file with a pickle and the tensors' bytes. It
// is read by a machine that knows tensors alone (tensor_pickle.h). Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "model/file_bytes.h"

namespace graft {

// Whether a file begins as torch.save's of any version do, a tar file of 2016 with them.
bool LooksLikeTorch(std::string_view file);

// Tensors may share bytes in the file, as a tied head does with its embedding, and have bytes of
// their own in what is made of it. With more than so many times the file's it is refused, so that
// no small file fills the memory.
inline constexpr int64_t kTorchGrowthMax = 4;

// The bytes of the safetensors file of the same tensors, as PEFT writes it. kUnimplemented: what
// is no plain tensor, or an older form, each by name; kInvalidArgument: what makes no sense.
Result<FileBytes> SafetensorsOfTorch(std::string_view file);

}  // namespace graft
