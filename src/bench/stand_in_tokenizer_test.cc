#include "bench/stand_in_tokenizer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

namespace graft {
namespace {

TEST(StandInTokenizerTest, EveryIdHasAWordOfItsOwn) {
  constexpr int32_t kVocabSize = 1000;
  const auto tokenizer = MakeStandInTokenizer(kVocabSize);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ((*tokenizer)->vocab_size(), kVocabSize);
  std::set<std::string> words;
  for (int32_t id = 0; id < kVocabSize; ++id) {
    const std::string word = (*tokenizer)->TokenBytes(id);
    EXPECT_EQ(word.front(), ' ') << id;
    EXPECT_TRUE(words.insert(word).second) << id << word;
  }
}

}  // namespace
}  // namespace graft
