// Sets of tokens as bits: bit t % 32 of word t / 32 is token t's. Bits beyond the vocabulary mean
// nothing.
#pragma once

#include <cstdint>

namespace graft {

inline constexpr int32_t NumMaskWords(int32_t vocab_size) { return (vocab_size + 31) / 32; }

inline void AddToMask(int32_t token, uint32_t* words) {
  words[token / 32] |= uint32_t{1} << (token % 32);
}

inline bool IsInMask(const uint32_t* words, int32_t token) {
  return (words[token / 32] >> (token % 32) & 1) != 0;
}

}  // namespace graft
