// What rank 0 orders the other ranks to do, as bytes: what a message says, and plain values one
// after the other, as the same program reads them. One thread each.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/check.h"
#include "model/transformer_sizes.h"
#include "step/executor.h"

namespace graft {

enum class RankOrder : uint8_t {
  kSetup,    // RankSetup: once, before all others
  kForward,  // a step
  kLogits,   // of further rows of the last step
  kCopy,     // an adapter into pages
};

// What a rank is built for.
struct RankSetup {
  ExecutorLimits limits;
  TransformerLimits transformer;
};

class MessageWriter {
 public:
  template <typename T>
  void Add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* const bytes = reinterpret_cast<const char*>(&value);
    bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
  }
  template <typename T>
  void AddAll(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    Add(static_cast<int64_t>(values.size()));
    const auto* const bytes = reinterpret_cast<const char*>(values.data());
    bytes_.insert(bytes_.end(), bytes, bytes + values.size_bytes());
  }
  void Clear() { bytes_.clear(); }
  std::span<const char> bytes() const { return bytes_; }

 private:
  std::vector<char> bytes_;
};

class MessageReader {
 public:
  explicit MessageReader(std::span<const char> bytes) : bytes_(bytes) {}

  template <typename T>
  T Take() {
    T value;
    CopyTo(&value, sizeof(T));
    return value;
  }
  template <typename T>
  std::vector<T> TakeAll() {
    std::vector<T> values(static_cast<size_t>(Take<int64_t>()));
    CopyTo(values.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  void CopyTo(void* values, size_t bytes) {
    CHECK_LE(bytes, bytes_.size());
    if (bytes > 0) std::memcpy(values, bytes_.data(), bytes);
    bytes_ = bytes_.subspan(bytes);
  }

  std::span<const char> bytes_;
};

}  // namespace graft
