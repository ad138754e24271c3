// The files of an adapter as they travel. Plain data; pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "base/sha256.h"

namespace graft {

inline constexpr std::array<const char*, 2> kAdapterFiles = {"adapter_config.json",
                                                             "adapter_model.safetensors"};
inline constexpr size_t kAdapterChunkBytes = 1 << 20;

inline std::string DigestOfChunk(const std::string& data) {
  Sha256 hash;
  hash.Update(data);
  return hash.HexDigest();
}

}  // namespace graft
