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
  kReplay,   // a step from its recorded graph
  kRecord,   // graphs of steps
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
    while (bytes_.size() % alignof(T) != 0) bytes_.push_back(0);
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
  // `bytes` begin on a border of alignof(std::max_align_t).
  explicit MessageReader(std::span<const char> bytes) : bytes_(bytes) {}

  template <typename T>
  T Take() {
    T value;
    std::memcpy(&value, Skip(sizeof(T)), sizeof(T));
    return value;
  }
  // Where they lie in the message.
  template <typename T>
  std::span<const T> TakeSpan() {
    const auto num_values = static_cast<size_t>(Take<int64_t>());
    taken_ += (alignof(T) - taken_ % alignof(T)) % alignof(T);
    const char* const begin = Skip(num_values * sizeof(T));
    return {reinterpret_cast<const T*>(begin), num_values};
  }
  template <typename T>
  std::vector<T> TakeAll() {
    const std::span<const T> values = TakeSpan<T>();
    return {values.begin(), values.end()};
  }

 private:
  const char* Skip(size_t bytes) {
    CHECK_LE(taken_ + bytes, bytes_.size());
    taken_ += bytes;
    return bytes_.data() + taken_ - bytes;
  }

  std::span<const char> bytes_;
  size_t taken_ = 0;
};

}  // namespace graft
