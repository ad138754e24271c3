// Hashes of values that clients choose, under a key that clients do not know, so that no client can
// send many prompts or salts that fall into one bucket. Equal inputs have equal hashes under one
// key, within one process; no hash is kept longer. Pure functions.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/random.h"

namespace graft {

// Each word is mixed into a state that depends on the key through all words before it: which words
// lead to one state cannot be told without the key.
constexpr uint64_t MixIn(uint64_t key, uint64_t state, uint64_t word) {
  return RandomBits(state ^ key, word);
}

// The hash of one page's tokens that follow `parent`.
inline uint64_t KeyedHash(uint64_t key, int32_t parent, std::span<const int32_t> tokens) {
  uint64_t state = MixIn(key, tokens.size(), static_cast<uint32_t>(parent));
  size_t i = 0;
  for (; i + 2 <= tokens.size(); i += 2) {
    const uint64_t high = static_cast<uint32_t>(tokens[i + 1]);
    state = MixIn(key, state, (high << 32) | static_cast<uint32_t>(tokens[i]));
  }
  return i == tokens.size() ? state : MixIn(key, state, static_cast<uint32_t>(tokens[i]));
}

inline uint64_t KeyedHash(uint64_t key, std::string_view bytes) {
  uint64_t state = MixIn(key, 0, bytes.size());
  for (; !bytes.empty(); bytes.remove_prefix(bytes.size() < 8 ? bytes.size() : 8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), bytes.size() < 8 ? bytes.size() : 8);
    state = MixIn(key, state, word);
  }
  return state;
}

}  // namespace graft
