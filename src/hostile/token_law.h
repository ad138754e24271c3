// Which tokens a request draws in a hostile simulation. Each token follows from the arithmetic, the
// adapter and all tokens before it, so that a lost, doubled or changed token changes all later
// ones. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace graft {

inline constexpr int32_t kHostileVocabSize = 1 << 16;

// Before the first token. `arithmetic`: of the runner's pool.
inline uint64_t ChainStart(int32_t arithmetic, int32_t rank) {
  return RandomBits(static_cast<uint64_t>(arithmetic) + 1, static_cast<uint64_t>(rank));
}
inline uint64_t ChainNext(uint64_t chain, int32_t token) {
  return RandomBits(chain, static_cast<uint64_t>(token));
}
inline int32_t TokenOf(uint64_t chain) {
  return static_cast<int32_t>(chain % static_cast<uint64_t>(kHostileVocabSize));
}

inline std::vector<int32_t> WholeAnswer(int32_t arithmetic, int32_t rank,
                                        const std::vector<int32_t>& prompt, int32_t num_tokens) {
  uint64_t chain = ChainStart(arithmetic, rank);
  for (const int32_t token : prompt) chain = ChainNext(chain, token);
  std::vector<int32_t> answer;
  for (int32_t i = 0; i < num_tokens; ++i) {
    answer.push_back(TokenOf(chain));
    chain = ChainNext(chain, answer.back());
  }
  return answer;
}

}  // namespace graft
