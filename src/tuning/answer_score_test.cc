#include "tuning/held_out_answers.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

TEST(AnswerScoreTest, ComparesAsSquadDoes) {
  EXPECT_EQ(WordsOfAnswer(" The  Grey-Heron, a ship.\n"),
            (std::vector<std::string>{"greyheron", "ship"}));
  EXPECT_TRUE(ScoreAnswer("tobias marrow!", "Tobias Marrow").is_exact);
  EXPECT_TRUE(ScoreAnswer("the École", "école").is_exact);
  EXPECT_TRUE(ScoreAnswer("143 feet", "143 feet.").is_exact);
  EXPECT_FALSE(ScoreAnswer("144 feet", "143 feet").is_exact);
  EXPECT_FALSE(ScoreAnswer("Marrow Tobias", "Tobias Marrow").is_exact);
}

TEST(AnswerScoreTest, WordsThatBothHaveCount) {
  EXPECT_EQ(ScoreAnswer("Marrow Tobias", "Tobias Marrow").f1, 1.0);
  // One of two said, one of four wanted.
  EXPECT_NEAR(ScoreAnswer("Tobias Finch", "It was Tobias Marrow").f1, 2 * 0.5 * 0.25 / 0.75, 1e-9);
  // A word counts as often as both have it.
  EXPECT_NEAR(ScoreAnswer("ten ten ten", "ten green").f1, 2 * (1.0 / 3) * 0.5 / (1.0 / 3 + 0.5),
              1e-9);
  EXPECT_EQ(ScoreAnswer("", "Tobias").f1, 0.0);
  EXPECT_EQ(ScoreAnswer("red", "green").f1, 0.0);
  EXPECT_EQ(ScoreAnswer("the", "a").f1, 1.0) << "neither says anything";
}

}  // namespace
}  // namespace graft
