// Any bytes as a safetensors file: they are refused, or every listed tensor lies inside the file.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "model/safetensors.h"

namespace {

volatile char sink;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const graft::Result<graft::SafetensorsFile> file = graft::SafetensorsFile::FromBytes(
      std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!file.ok()) return 0;
  for (const auto& [name, entry] : file->entries()) {
    const graft::Result<std::span<const char>> bytes = file->Bytes(name);
    CHECK(bytes.ok());
    for (const char byte : *bytes) sink = byte;  // reads it, for the sanitizer
    const graft::Result<graft::TensorView> tensor = file->Tensor(name);
    if (tensor.ok()) CHECK_EQ(tensor->bytes(), static_cast<int64_t>(bytes->size()));
  }
  return 0;
}
