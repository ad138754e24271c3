#include "text/word_cache.h"

#include <algorithm>
#include <functional>

namespace graft {

WordCache::WordCache() {
  for (Shard& shard : shards_) shard.slots.resize(kSlotsPerShard);
}

bool WordCache::Find(std::string_view word, std::vector<int32_t>* ids) {
  if (word.size() > kWordBytesMax) return false;
  const uint64_t hash = std::hash<std::string_view>()(word);
  Shard& shard = shards_[hash % kShards];
  const std::lock_guard lock(shard.mutex);
  const Slot& slot = shard.slots[hash / kShards % kSlotsPerShard];
  const bool same = slot.hash == hash && std::string_view(slot.word.data(), slot.num_bytes) == word;
  if (!same) return false;
  ids->insert(ids->end(), slot.ids.begin(), slot.ids.begin() + slot.num_ids);
  return true;
}

void WordCache::Insert(std::string_view word, const int32_t* ids, size_t num_ids) {
  if (word.empty() || word.size() > kWordBytesMax || num_ids > kIdsMax) return;
  const uint64_t hash = std::hash<std::string_view>()(word);
  Shard& shard = shards_[hash % kShards];
  const std::lock_guard lock(shard.mutex);
  Slot& slot = shard.slots[hash / kShards % kSlotsPerShard];
  slot.hash = hash;
  slot.num_bytes = static_cast<uint8_t>(word.size());
  slot.num_ids = static_cast<uint8_t>(num_ids);
  std::copy(word.begin(), word.end(), slot.word.begin());
  std::copy(ids, ids + num_ids, slot.ids.begin());
}

}  // namespace graft
