#include <gtest/gtest.h>

#include <vector>

#include "base/shared_text.h"
#include "base/token_set.h"

namespace graft {
namespace {

TEST(TokenSetTest, IsAscendingAndDistinctAndItsCopiesShare) {
  const TokenSet tokens = {7, 3, 7, 0, 3};
  EXPECT_EQ(std::vector<int32_t>(tokens.begin(), tokens.end()), (std::vector<int32_t>{0, 3, 7}));
  EXPECT_EQ(tokens.size(), 3u);
  const std::vector<TokenSet> copies(128, tokens);
  for (const TokenSet& copy : copies) EXPECT_EQ(copy.begin(), tokens.begin()) << "one list";
  EXPECT_EQ(tokens, TokenSet(std::vector<int32_t>{0, 7, 3}));
  EXPECT_NE(tokens, TokenSet({0, 7}));
  EXPECT_TRUE(TokenSet().empty());
  EXPECT_TRUE(TokenSet(std::vector<int32_t>()).empty());
  EXPECT_EQ(TokenSet().size(), 0u);
}

TEST(SharedTextTest, CopiesShareTheTextAndItsHash) {
  const SharedText text("abc");
  EXPECT_EQ(text.sha256(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const std::vector<SharedText> copies(128, text);
  for (const SharedText& copy : copies) {
    EXPECT_EQ(copy.text().data(), text.text().data());
    EXPECT_EQ(copy.sha256().data(), text.sha256().data()) << "computed once";
  }
  EXPECT_EQ(text, SharedText(std::string("abc")));
  EXPECT_NE(text, SharedText("abd"));
  EXPECT_TRUE(SharedText("").empty());
  EXPECT_EQ(SharedText().text(), "");
  EXPECT_EQ(SharedText().sha256(), "");
}

}  // namespace
}  // namespace graft
