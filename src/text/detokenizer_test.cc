#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "text/text_test_util.h"
#include "text/utf8.h"

namespace graft {
namespace detokenizer_test {

using Ids = std::vector<int32_t>;

std::string PushAll(Detokenizer* detokenizer, const Ids& ids, std::vector<std::string>* pieces) {
  std::string all;
  for (const int32_t id : ids) pieces->push_back(detokenizer->Push(id));
  pieces->push_back(detokenizer->Flush());
  for (const std::string& piece : *pieces) all += piece;
  return all;
}

// Random ids, most of them byte tokens, so that most sequences are broken UTF-8 somewhere.
TEST(DetokenizerTest, PiecesJoinToDecodeAndAreWholeUtf8) {
  for (const int family : {0, 1}) {
    const auto tokenizer = GoldenTokenizer(family);
    Detokenizer detokenizer(*tokenizer, true);
    Random random(17);
    for (int round = 0; round < 2000; ++round) {
      Ids ids(random.Below(20));
      for (int32_t& id : ids) {
        const bool any = random.Uniform() < 0.3;
        id = static_cast<int32_t>(random.Below(any ? tokenizer->vocab_size() + 2 : 260));
      }
      std::vector<std::string> pieces;
      EXPECT_EQ(PushAll(&detokenizer, ids, &pieces), tokenizer->Decode(ids, true));
      for (const std::string& piece : pieces) EXPECT_TRUE(IsValidUtf8(piece));
    }
  }
}

TEST(DetokenizerTest, HoldsBackUntilTheCharacterIsWhole) {
  const auto tokenizer = GoldenTokenizer(0);
  Detokenizer detokenizer(*tokenizer, true);
  // The three bytes of U+4F60 in the byte-level alphabet.
  EXPECT_EQ(detokenizer.Push(*tokenizer->TokenId("ä")), "");
  EXPECT_EQ(detokenizer.Push(*tokenizer->TokenId("½")), "");
  EXPECT_EQ(detokenizer.Push(*tokenizer->TokenId("ł")), "\xE4\xBD\xA0");
  EXPECT_EQ(detokenizer.Push(*tokenizer->TokenId("ä")), "");
  EXPECT_EQ(detokenizer.Push(*tokenizer->TokenId("Ġthe")), "\xEF\xBF\xBD the");
  EXPECT_EQ(detokenizer.Push(*tokenizer->TokenId("ä")), "");
  EXPECT_EQ(detokenizer.Flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(detokenizer.Flush(), "");
}

TEST(DetokenizerTest, OneBrokenByteSpoilsARunOfByteTokens) {
  const auto tokenizer = GoldenTokenizer(1);
  Detokenizer detokenizer(*tokenizer, true);
  const auto push = [&](std::initializer_list<const char*> tokens) {
    std::string text;
    for (const char* token : tokens) text += detokenizer.Push(*tokenizer->TokenId(token));
    return text;
  };
  const int32_t the = *tokenizer->TokenId("▁the");
  EXPECT_EQ(push({"<0xE4>", "<0xBD>", "<0xA0>"}), "");
  EXPECT_EQ(detokenizer.Push(the), "\xE4\xBD\xA0 the");
  EXPECT_EQ(push({"<0x41>", "<0xFF>"}), "");
  EXPECT_EQ(detokenizer.Push(the), "\xEF\xBF\xBD\xEF\xBF\xBD the");
}

TEST(DetokenizerTest, OnlyTheFirstSpaceOfAMetaspaceTextGoes) {
  const auto tokenizer = GoldenTokenizer(1);
  const int32_t the = *tokenizer->TokenId("▁the");
  Detokenizer detokenizer(*tokenizer, true);
  EXPECT_EQ(detokenizer.Push(the), "the");
  EXPECT_EQ(detokenizer.Push(the), " the");
  EXPECT_EQ(detokenizer.Flush(), "");
  EXPECT_EQ(detokenizer.Push(the), "the") << "Flush starts a new text";
}

TEST(DetokenizerTest, SkipsSpecialTokensOnlyIfAsked) {
  const auto tokenizer = GoldenTokenizer(0);
  Detokenizer skipping(*tokenizer, true);
  Detokenizer keeping(*tokenizer, false);
  EXPECT_EQ(skipping.Push(0), "");
  EXPECT_EQ(keeping.Push(0), "<s>");
  Detokenizer but_one(*tokenizer, true, {1});
  EXPECT_EQ(but_one.Push(0), "");
  EXPECT_EQ(but_one.Push(1), "</s>");
}

}  // namespace detokenizer_test
}  // namespace graft
