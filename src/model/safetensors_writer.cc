#include "model/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/fault.h"
#include "base/json.h"

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

// A file beside `path` that takes its place once it is whole.
class NewFile {
 public:
  explicit NewFile(const std::string& path) : path_(path), new_path_(path + ".new") {
    descriptor_ = open(new_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor_ < 0) Fail("cannot write " + new_path_);
  }
  ~NewFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!is_done_) unlink(new_path_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void Write(const void* data, size_t bytes) {
    const char* at = static_cast<const char*>(data);
    while (status_.ok() && bytes > 0) {
      const ssize_t n = write(descriptor_, at, bytes);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Fail("cannot write " + new_path_);
      at += n;
      bytes -= static_cast<size_t>(n);
    }
  }

  Status Finish() {
    if (status_.ok() && fsync(descriptor_) != 0) Fail("cannot write " + new_path_);
    if (status_.ok() && rename(new_path_.c_str(), path_.c_str()) != 0) {
      Fail("cannot rename " + new_path_);
    }
    is_done_ = status_.ok();
    return status_;
  }

 private:
  void Fail(const std::string& what) { status_ = SystemError(errno, what); }

  const std::string path_;
  const std::string new_path_;
  int descriptor_ = -1;
  bool is_done_ = false;
  Status status_;
};

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

Status WriteWholeFile(const std::string& path, const std::string& bytes) {
  NewFile file(path);
  file.Write(bytes.data(), bytes.size());
  return file.Finish();
}

}  // namespace graft
