#include "registry/adapter_entry.h"

namespace graft {

AdapterInfo InfoOf(const RegistryEntry& entry) {
  return {.name = entry.name,
          .hash = entry.hash,
          .path = entry.path,
          .base_model = entry.base_model,
          .rank_max = entry.rank_max,
          .num_virtual_tokens = entry.num_virtual_tokens,
          .bytes = entry.bytes,
          .tenant = entry.tenant,
          .loaded_at = entry.loaded_at,
          .unread_key = "",
          .owner = entry.owner,
          .text = entry.text};
}

RegistryEntry EntryOf(const AdapterInfo& info) {
  return {.name = info.name,
          .hash = info.hash,
          .path = info.path,
          .base_model = info.base_model,
          .rank_max = info.rank_max,
          .num_virtual_tokens = info.num_virtual_tokens,
          .bytes = info.bytes,
          .tenant = info.tenant,
          .loaded_at = info.loaded_at,
          .owner = info.owner,
          .text = info.text};
}

}  // namespace graft
