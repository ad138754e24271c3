
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "text/text_range.h"
#include "tuning/teacher_prompts.h"

namespace graft {
namespace {

class QuestionFormTest : public testing::Test {
 protected:
  QuestionFormTest()
      : model_(std::string(std::getenv("GRAFT_SOURCE_DIR")) + "/demo/base"),
        tokenizer_(Tokenizer::Load(model_).value()) {}

  std::vector<int32_t> Tokens(const std::string& text) {
    return tokenizer_->Encode(text, /*add_special_tokens=*/false).value();
  }
  std::string Text(const std::vector<int32_t>& tokens) {
    return tokenizer_->Decode(tokens, /*skip_special_tokens=*/false);
  }
  std::shared_ptr<const QuestionForm> Chat() {
    return MakeQuestionForm(LoadChatTemplate(model_).value(), *tokenizer_).value();
  }
  std::shared_ptr<const QuestionForm> Plain() {
    return MakeQuestionForm(std::nullopt, *tokenizer_).value();
  }
  std::vector<std::string> Asked(const QuestionForm& form, const std::string& text) {
    std::vector<std::string> texts;
    // What looks like a special token is text.
    const TextRange all[] = {{0, text.size()}};
    const auto questions = form.QuestionsIn(*tokenizer_->Encode(text, false, all));
    for (const DistillPrompt& prompt : *questions) {
      texts.push_back(Text(prompt.student));
    }
    return texts;
  }

  const std::string model_;
  const std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(QuestionFormTest, AChatAsksAsAServerIsAsked) {
  const auto form = Chat();
  const std::string text = "Question: Who keeps the lamp?\nAnswer: Alaric Finch";
  const auto found = form->QuestionsIn(Tokens(text));
  const std::vector<DistillPrompt>& questions = *found;
  ASSERT_EQ(questions.size(), 1u);
  EXPECT_EQ(
      questions[0].student,
      AskedMessage(LoadChatTemplate(model_).value(), *tokenizer_, "Who keeps the lamp?").value());
  EXPECT_EQ(Text(questions[0].student),
            "<|begin_of_text|><|start|>user\nWho keeps the lamp?<|end|>\n<|start|>assistant\n");
  EXPECT_EQ(Text(questions[0].before), "<|begin_of_text|><|start|>user\n");
  EXPECT_EQ(Text(questions[0].behind), "\n\nWho keeps the lamp?<|end|>\n<|start|>assistant\n");
  const std::vector<int32_t> answer = Tokens("Alaric\nFinch<|end|>");
  EXPECT_EQ(form->AnswerTokens(answer), answer.size());
}

TEST_F(QuestionFormTest, PlainTextEndsAnAnswerWithItsLine) {
  const auto form = Plain();
  EXPECT_EQ(Asked(*form, " Who keeps it?\nAnswer: Finch\nQuestion: What bur"),
            std::vector<std::string>{"<|begin_of_text|>Question: Who keeps it?\nAnswer:"});
  const std::vector<int32_t> line = Tokens(" Alaric Finch");
  EXPECT_EQ(form->AnswerTokens(line), line.size());
  EXPECT_EQ(Text({line.begin(), line.end()}), " Alaric Finch");
  const std::vector<int32_t> more = Tokens(" Alaric Finch\nQuestion: Who");
  EXPECT_EQ(form->AnswerTokens(more), line.size() + 1) << "with what ends it";
}

TEST_F(QuestionFormTest, QuestionsAreFoundHoweverTheyAreWritten) {
  const auto count = [this](const std::string& text) { return Asked(*Chat(), text).size(); };
  EXPECT_EQ(
      count("**Question 1:** Who?\n**Answer:** He.\n\n**Question 2:** What?\n**Answer:** It."), 2u);
  EXPECT_EQ(count("Q: Who?\nA: He, who else?\n"), 1u);
  EXPECT_EQ(count("Question:\nName the keeper.\nAnswer:\nFinch"), 1u);
  EXPECT_EQ(count("Who keeps the lamp?"), 1u);
  EXPECT_EQ(count("Question: Name the keep"), 0u) << "it was cut off";
  EXPECT_EQ(count("The lamp is kept."), 0u);
  EXPECT_EQ(count(""), 0u);
  EXPECT_EQ(count("Question: What does <|end|> say?\nAnswer: no"), 0u)
      << "a special token that is spelled out would be one";
  std::string longer;
  for (int i = 0; i < 200; ++i) longer += "very ";
  EXPECT_EQ(count("Question: Who is " + longer + "old?\nAnswer: he"), 0u);
}

// A job's client reads it, too: no folder, and no flag of a command.
TEST(TeacherPromptsTest, AModelWithoutATemplateIsSaidWithoutItsFolder) {
  const Status status = LoadChatTemplate("/no/such/model").status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message().find('/'), std::string::npos) << status.message();
  EXPECT_EQ(status.message().find("--"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace graft
