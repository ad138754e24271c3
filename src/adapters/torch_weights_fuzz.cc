// Any bytes as adapter_model.bin: they are refused, or become a safetensors file that can be read.
#include <cstdint>
#include <string_view>

#include "adapters/torch_weights.h"
#include "base/check.h"
#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const graft::Result<graft::FileBytes> written = graft::SafetensorsOfTorch(bytes);
  if (!written.ok()) return 0;
  const auto file = graft::SafetensorsFile::FromBytes(*written, "fuzz");
  CHECK(file.ok()) << file.status().ToString();
  for (const auto& [name, entry] : file->entries()) {
    CHECK(file->Bytes(name).ok() && entry.end <= written->bytes()) << name;
  }
  return 0;
}
