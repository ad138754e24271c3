#include "tuning/held_out_answers.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "base/json.h"

namespace graft {
namespace held_out_answers_test {

// Says to each prompt what it was told to.
class ToldWriter : public TextWriter {
 public:
  Result<std::vector<TaughtText>> Write(std::span<const WriteOrder> orders) override {
    std::vector<TaughtText> texts;
    for (const WriteOrder& order : orders) {
      EXPECT_EQ(order.temperature, 0.0f);
      texts.push_back({.tokens = says_[order.prompt], .ids = {}, .probabilities = {}});
    }
    return texts;
  }
  int32_t num_choices() const override { return 0; }
  void Say(const std::vector<int32_t>& prompt, std::vector<int32_t> tokens) {
    says_[prompt] = std::move(tokens);
  }

 private:
  std::map<std::vector<int32_t>, std::vector<int32_t>> says_;
};

class HeldOutAnswersTest : public ::testing::Test {
 protected:
  std::vector<int32_t> Tokens(const std::string& text) {
    return tokenizer_->Encode(text, /*add_special_tokens=*/false).value();
  }

  const std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::Load(std::string(std::getenv("GRAFT_SOURCE_DIR")) + "/demo/base").value();
};

TEST_F(HeldOutAnswersTest, CountsWhatIsRightOfAdapterAndBase) {
  std::vector<AskedQuestion> questions;
  ToldWriter adapter, base;
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"Tobias Marrow", "tobias Marrow.\nAnd more", "the ship"},
      {"143 feet", "143 metres", "143 feet"},
      {"walnuts", "walnuts", "oil"},
      {"Quillhaven", "", "nothing"}};
  for (const auto& [right, said, base_said] : cases) {
    const std::vector<int32_t> prompt = {static_cast<int32_t>(questions.size())};
    questions.push_back({prompt, Tokens(std::string(right) + "\n")});
    adapter.Say(prompt, Tokens(said));
    base.Say(prompt, Tokens(base_said));
  }
  const HeldOutQuiz quiz = MakeQuiz(questions, *tokenizer_);
  ASSERT_EQ(quiz.orders.size(), 4u);
  EXPECT_GT(quiz.orders[0].tokens_max, static_cast<int32_t>(questions[0].answer.size()));
  const HeldOutAnswers answers = **AskHeldOut(quiz, adapter, base, *tokenizer_);
  EXPECT_EQ(answers.asked, 4);
  EXPECT_EQ(answers.right, 2);
  EXPECT_EQ(answers.right_base, 1);
  EXPECT_NEAR(answers.f1, 2.5 / 4, 1e-9);
  EXPECT_NEAR(answers.f1_base, 1.0 / 4, 1e-9);
  EXPECT_EQ(DescribeAnswers(answers),
            "2 of 4 questions that it was not taught right, F1 0.62 (base 1, F1 0.25)");
  EXPECT_EQ(HeldOutAnswersJson(answers)["right"], 2);
  EXPECT_EQ(WarnOfAnswers(answers, "more"), "");
}

TEST_F(HeldOutAnswersTest, WarnsOfWhatIsWorseThanHalfOrThanTheBase) {
  HeldOutAnswers answers{.asked = 8, .right = 2, .right_base = 0, .f1 = 0.4, .f1_base = 0.1};
  EXPECT_NE(WarnOfAnswers(answers, "do more").find("2 of 8"), std::string::npos);
  EXPECT_NE(WarnOfAnswers(answers, "do more").find("do more"), std::string::npos);
  answers.f1 = 0.6;
  EXPECT_EQ(WarnOfAnswers(answers, "do more"), "");
  answers.f1_base = 0.7;
  EXPECT_NE(WarnOfAnswers(answers, "do more"), "");
}

TEST_F(HeldOutAnswersTest, AsksNoMoreThanIsWorthTheTimeSpreadOverAll) {
  EXPECT_FALSE(AskHeldOut(MakeQuiz({}, *tokenizer_), *std::make_unique<ToldWriter>(),
                          *std::make_unique<ToldWriter>(), *tokenizer_)
                   ->has_value());
  std::vector<AskedQuestion> many;
  for (int32_t i = 0; i < 640; ++i) many.push_back({{i}, Tokens("x")});
  const HeldOutQuiz quiz = MakeQuiz(many, *tokenizer_);
  ASSERT_EQ(quiz.orders.size(), 64u);
  EXPECT_EQ(quiz.orders[63].prompt[0], 630);
}

}  // namespace held_out_answers_test
}  // namespace graft
