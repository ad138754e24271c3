// FileBytes: a file's bytes in memory. Copies share them, because an adapter's tensors are
// converted and tested while its bytes are hashed by another thread. Immutable once filled; any
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "tensor/buffer.h"

namespace graft {

class FileBytes {
 public:
  FileBytes() = default;
  explicit FileBytes(Buffer bytes) : bytes_(std::make_shared<const Buffer>(std::move(bytes))) {}

  const char* data() const { return bytes_ == nullptr ? nullptr : bytes_->as<char>(); }
  int64_t bytes() const { return bytes_ == nullptr ? 0 : bytes_->bytes(); }
  std::string_view view() const { return {data(), static_cast<size_t>(bytes())}; }

 private:
  std::shared_ptr<const Buffer> bytes_;
};

}  // namespace graft
