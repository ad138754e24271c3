// Words of 32 bits that hold 8 codes of 4 bits or 4 of 8, the first in the lowest bits, as GPTQ,
// AWQ and compressed-tensors pack them. Pure functions; any thread.
#pragma once

#include <cstdint>

#include "model/module_tensors.h"

namespace graft {

constexpr int64_t CodesPerWord(int32_t bits) { return 32 / bits; }
constexpr uint32_t CodeMask(int32_t bits) { return (1u << bits) - 1; }

// Code i of those that begin at `word` of a tensor of words.
inline uint8_t CodeAt(const RawTensor& words, int64_t word, int64_t i, int32_t bits) {
  const int64_t per_word = CodesPerWord(bits);
  const auto bits_of_word = words.At<uint32_t>(word + i / per_word);
  return static_cast<uint8_t>((bits_of_word >> (i % per_word * bits)) & CodeMask(bits));
}

// Codes [begin, begin + n) of those that begin at `word`; begin is a whole word's.
inline void UnpackCodes(const RawTensor& words, int64_t word, int64_t begin, int64_t n,
                        int32_t bits, uint8_t* out) {
  const int64_t per_word = CodesPerWord(bits);
  const uint32_t mask = CodeMask(bits);
  word += begin / per_word;
  for (int64_t i = 0; i < n; ++word) {
    auto bits_of_word = words.At<uint32_t>(word);
    for (int64_t j = 0; j < per_word && i < n; ++j, ++i, bits_of_word >>= bits) {
      out[i] = static_cast<uint8_t>(bits_of_word & mask);
    }
  }
}

}  // namespace graft
