// Owns the texts that one Encode makes; views of them hold as long as the arena lives. One thread.
#pragma once

#include <algorithm>
#include <deque>
#include <string>
#include <string_view>

#include "text/byte_level.h"

namespace graft {

class TextArena {
 public:
  // Copies `text` in.
  std::string_view Add(std::string_view text) {
    std::string* chunk = Reserve(text.size());
    const size_t begin = chunk->size();
    chunk->append(text);
    return std::string_view(*chunk).substr(begin);
  }
  // The byte-level spelling of `bytes`.
  std::string_view AddByteLevel(std::string_view bytes) {
    std::string* chunk = Reserve(2 * bytes.size());
    const size_t begin = chunk->size();
    AppendByteLevel(bytes, chunk);
    return std::string_view(*chunk).substr(begin);
  }

 private:
  // A chunk with room for `bytes`: it never grows past its capacity, so that earlier views stay.
  std::string* Reserve(size_t bytes) {
    if (chunks_.empty() || chunks_.back().size() + bytes > chunks_.back().capacity()) {
      chunks_.emplace_back().reserve(std::max(bytes, kChunkBytes));
    }
    return &chunks_.back();
  }

  static constexpr size_t kChunkBytes = 4096;
  std::deque<std::string> chunks_;
};

}  // namespace graft
