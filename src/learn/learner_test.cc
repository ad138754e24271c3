#include "learn/learner.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <set>

namespace graft {
namespace learner_test {

LearnerInput InputOf(int32_t num_tokens, int32_t window_tokens) {
  LearnerInput input;
  input.start = {1000};
  input.tokens.resize(static_cast<size_t>(num_tokens));
  std::iota(input.tokens.begin(), input.tokens.end(), 0);
  input.window_tokens = window_tokens;
  return input;
}

TEST(WindowsTest, EveryTokenIsFreshOnce) {
  for (const int64_t n : {1, 2, 9, 10, 11, 99, 100, 101, 1000}) {
    int64_t next = 0;
    for (const DocumentWindow& window : WindowsOf(n, 20)) {
      EXPECT_EQ(window.fresh, next);
      EXPECT_LE(window.end - window.begin, 20);
      EXPECT_GE(window.begin, 0);
      if (window.fresh > 0) {
        EXPECT_EQ(window.fresh - window.begin, 2);
      }
      EXPECT_GE(window.end - window.fresh, std::min<int64_t>(n, 9)) << "as many as in others";
      next = window.end;
    }
    EXPECT_EQ(next, n);
  }
}

// A job is as long as its passes say, so that more than there are numbers for must not be few.
TEST(LearnerRatesTest, StepsTakeAsManyPassesAsTheyVisit) {
  LearnerRates rates = {.passes = 3, .steps = 10, .batch = 4};
  EXPECT_EQ(rates.PassesFor(40), 1);
  EXPECT_EQ(rates.PassesFor(39), 2);
  EXPECT_EQ(rates.StepsFor(39), 10);
  rates.steps = 1 << 26;
  rates.batch = 128;
  EXPECT_EQ(rates.PassesFor(2), std::numeric_limits<int32_t>::max());
  rates.steps = 0;
  EXPECT_EQ(rates.PassesFor(2), 3);
}

TEST(NextTokenTest, EveryTokenIsSaidOnceByTheRowBeforeIt) {
  const auto learner = MakeNextTokenLearner();
  const LearnerData data = *learner->Prepare(InputOf(300, 20), nullptr);
  EXPECT_EQ(data.held_out.size(), 1u);
  std::set<int32_t> said;
  for (const auto* examples : {&data.training, &data.held_out}) {
    for (const TrainingExample& example : *examples) {
      EXPECT_EQ(example.tokens[0], 1000);
      EXPECT_LE(static_cast<int32_t>(example.tokens.size()), learner->ExampleTokensMax(20));
      for (size_t i = 0; i < example.rows.size(); ++i) {
        EXPECT_EQ(example.ids[i], example.tokens[static_cast<size_t>(example.rows[i]) + 1]);
        EXPECT_TRUE(said.insert(example.ids[i]).second);
      }
    }
  }
  EXPECT_EQ(said.size(), 300u);
  EXPECT_EQ(data.training[0].ids[0], 0) << "the first window is learned";
}

TEST(NextTokenTest, AShortDocumentIsLearnedWhole) {
  const auto learner = MakeNextTokenLearner();
  const LearnerData data = *learner->Prepare(InputOf(60, 20), nullptr);
  EXPECT_TRUE(data.held_out.empty());
  LearnerInput bare = InputOf(60, 20);
  bare.start.clear();  // no row says the first token then
  EXPECT_EQ(learner->Prepare(bare, nullptr)->training[0].ids[0], 1);
  const Status status = learner->Prepare(InputOf(7, 20), nullptr).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("7 tokens"), std::string::npos);
}

}  // namespace learner_test
}  // namespace graft
