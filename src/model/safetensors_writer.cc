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

std::string SafetensorsStart(std::string header) {
  header.resize((header.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  std::string start;
  for (int i = 0; i < 8; ++i) start += static_cast<char>(uint64_t{header.size()} >> (8 * i) & 0xff);
  return start + header;
}

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
  const std::string start = SafetensorsStart(DumpJson(header));
  NewFile file(path);
  file.Write(start.data(), start.size());
  for (const auto& [name, tensor] : tensors) {
    file.Write(tensor.data, static_cast<size_t>(tensor.bytes()));
  }
  return file.Finish();
}

}  // namespace graft
