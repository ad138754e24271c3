// What is foreseen from a text's own past, against a search through all of it.
#include "engine/prompt_lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace graft {
namespace {

std::vector<int32_t> Foreseen(const PromptLookup& lookup, const std::vector<int32_t>& tokens,
                              int32_t count) {
  std::vector<int32_t> drafts;
  if (lookup.has_match()) lookup.Draft(tokens, count, &drafts);
  return drafts;
}

TEST(PromptLookupTest, GoesOnAsItDidWhereTheLastTokensStoodBefore) {
  std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 9, 1, 2};
  PromptLookup lookup;
  lookup.Extend(tokens, 9);
  EXPECT_FALSE(lookup.has_match());
  tokens.push_back(3);
  lookup.Extend(tokens, 9);
  EXPECT_EQ(Foreseen(lookup, tokens, 3), std::vector<int32_t>({4, 5, 6}));
  // Behind the end it goes on in turns: the text would repeat itself.
  EXPECT_EQ(Foreseen(lookup, tokens, 9), std::vector<int32_t>({4, 5, 6, 9, 1, 2, 3, 4, 5}));
}

TEST(PromptLookupTest, APeriodIsFollowed) {
  const std::vector<int32_t> tokens = {8, 7, 7, 7, 7};
  PromptLookup lookup;
  lookup.Extend(tokens, 5);
  EXPECT_EQ(Foreseen(lookup, tokens, 4), std::vector<int32_t>({7, 7, 7, 7}));
}

TEST(PromptLookupTest, FindsTheLastPlaceUnlessItFollowsAnother) {
  std::vector<int32_t> tokens = {1, 2, 3, 50, 51, 52, 1, 2, 3, 60, 61, 62};
  const std::vector<int32_t> again = {1, 2, 3};
  tokens.insert(tokens.end(), again.begin(), again.end());
  PromptLookup lookup;
  lookup.Extend(tokens, 15);
  EXPECT_EQ(Foreseen(lookup, tokens, 1), std::vector<int32_t>({60}));
  // While a place is followed, its next token is foreseen, though 3, 4, 5 also stood later.
  std::vector<int32_t> followed = {9, 1, 2, 3, 4, 5, 6, 0, 3, 4, 5, 7, 8, 9, 1, 2, 3, 4, 5};
  PromptLookup follower;
  follower.Extend(followed, 19);
  EXPECT_EQ(Foreseen(follower, followed, 1), std::vector<int32_t>({6}));
}

TEST(PromptLookupTest, LearnsHowOftenItIsRight) {
  std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3};
  PromptLookup lookup;
  lookup.Extend(tokens, 15);
  const double at_first = lookup.Acceptance(0.7);
  for (const int32_t right : {4, 5, 6, 7, 8, 9, 10, 11}) tokens.push_back(right);
  lookup.Extend(tokens, 15);
  EXPECT_GT(lookup.Acceptance(0.7), 0.9);
  // A prompt that repeats itself says nothing of the answer.
  PromptLookup reader;
  reader.Extend(tokens, static_cast<int32_t>(tokens.size()));
  EXPECT_EQ(reader.Acceptance(0.7), at_first);
  for (int32_t i = 0; i < 12; ++i) {  // each time another token comes than the first time
    for (const int32_t token : {1, 2, 3, 100 + i}) tokens.push_back(token);
  }
  lookup.Extend(tokens, 15);
  EXPECT_LT(lookup.Acceptance(0.7), 0.1);
}

// The last gram that fell into a slot is known, others may be forgotten: what is foreseen is right,
// and nearly all that could be foreseen is.
TEST(PromptLookupTest, MatchesASearchThroughTheText) {
  Random random(3);
  std::vector<int32_t> tokens;
  PromptLookup lookup;
  int32_t num_matches = 0;
  int32_t num_found = 0;
  for (int32_t i = 0; i < 4000; ++i) {
    tokens.push_back(static_cast<int32_t>(random.Below(12)));
    lookup.Extend(tokens, 0);
    const auto gram = tokens.end() - std::min<ptrdiff_t>(PromptLookup::kGramTokens, i + 1);
    const bool stood_before =
        i >= PromptLookup::kGramTokens &&
        std::search(tokens.begin(), tokens.end() - 1, gram, tokens.end()) != tokens.end() - 1;
    num_matches += stood_before ? 1 : 0;
    num_found += lookup.has_match() ? 1 : 0;
    ASSERT_TRUE(stood_before || !lookup.has_match()) << i;
    if (!lookup.has_match()) continue;
    // After the same three tokens.
    const std::vector<int32_t> next = Foreseen(lookup, tokens, 1);
    std::vector<int32_t> wanted(gram, tokens.end());
    wanted.insert(wanted.end(), next.begin(), next.end());
    ASSERT_NE(std::search(tokens.begin(), tokens.end(), wanted.begin(), wanted.end()),
              tokens.end());
  }
  EXPECT_GT(num_matches, 2000);
  EXPECT_GT(num_found, num_matches * 8 / 10);
}

}  // namespace
}  // namespace graft
