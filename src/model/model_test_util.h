// What the model's tests share: safetensors files made by hand, temporary folders, and the paths of
// the repository's data. For tests only.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"

namespace graft::testing {

struct TestTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string data;
};

// A safetensors file with this text as its header.
inline std::string WithHeader(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}

// A well-formed file with these tensors in this order.
inline std::string SafetensorsBytes(const std::vector<TestTensor>& tensors) {
  Json header = Json::object();
  std::string data;
  for (const TestTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
    data += tensor.data;
  }
  return WithHeader(header.dump(), data);
}

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

inline void WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  CHECK(file.good()) << path;
}

// An empty folder, removed with everything in it at the end of the scope.
class TempDir {
 public:
  TempDir() {
    std::string path = (std::filesystem::temp_directory_path() / "graft_model_XXXXXX").string();
    CHECK(mkdtemp(path.data()) != nullptr);
    path_ = path;
  }
  ~TempDir() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A path in the repository.
inline std::string SourcePath(const std::string& relative) {
  const char* root = std::getenv("GRAFT_SOURCE_DIR");
  CHECK(root != nullptr) << "run through ctest, or set GRAFT_SOURCE_DIR to the repository";
  return std::string(root) + "/" + relative;
}

}  // namespace graft::testing
