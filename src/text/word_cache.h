// WordCache remembers the tokens of short words, because texts repeat their words and merging is
// the costly part of BPE. It is a fixed table in which a new word takes the place of the old one in
// its slot. Thread-safe: a lock per shard, held while a few ids are copied.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

namespace graft {

class WordCache {
 public:
  static constexpr size_t kWordBytesMax = 40;
  static constexpr size_t kIdsMax = 8;

  WordCache();
  // Appends the word's ids and returns true if it is remembered.
  bool Find(std::string_view word, std::vector<int32_t>* ids);
  // Remembers the word if it and its ids are short enough.
  void Insert(std::string_view word, const int32_t* ids, size_t num_ids);

 private:
  static constexpr size_t kShards = 16;
  static constexpr size_t kSlotsPerShard = 1024;
  struct Slot {
    uint64_t hash = 0;
    uint8_t num_bytes = 0;  // 0: empty
    uint8_t num_ids = 0;
    std::array<char, kWordBytesMax> word;
    std::array<int32_t, kIdsMax> ids;
  };
  struct Shard {
    std::mutex mutex;
    std::vector<Slot> slots;
  };
  std::array<Shard, kShards> shards_;
};

}  // namespace graft
