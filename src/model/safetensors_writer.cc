#include "model/safetensors_writer.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/new_file.h"

namespace graft {
namespace {

constexpr size_t kHeaderAlignment = 8;

std::string_view NameInFile(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "F32";
    case DType::kBF16:
      return "BF16";
    case DType::kF16:
      return "F16";
  }
  CHECK(false) << "no such dtype: " << static_cast<int>(dtype);
  __builtin_unreachable();
}

}  // namespace

Status WriteSafetensors(const std::string& path, std::span<const SafetensorsOut> tensors,
                        const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    CHECK(!header.contains(name)) << name;
    const int64_t begin = end;
    end += tensor.bytes();
    header[name] = {{"dtype", NameInFile(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, end}}};
  }
  std::string text = DumpJson(header);
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  const uint64_t length = text.size();
  unsigned char length_bytes[8];
  for (int i = 0; i < 8; ++i) length_bytes[i] = static_cast<unsigned char>(length >> (8 * i));
  NewFile file(path);
  file.Write(length_bytes, sizeof(length_bytes));
  file.Write(text.data(), text.size());
  for (const auto& [name, tensor] : tensors) {
    file.Write(tensor.data, static_cast<size_t>(tensor.bytes()));
  }
  return file.Finish();
}

}  // namespace graft
