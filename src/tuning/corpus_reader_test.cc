#include "tuning/corpus_reader.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "tuning/teacher_prompts.h"

namespace graft {
namespace corpus_reader_test {

class CorpusReaderTest : public ::testing::Test {
 protected:
  CorpusReaderTest()
      : model_(std::string(std::getenv("GRAFT_SOURCE_DIR")) + "/demo/base"),
        tokenizer_(Tokenizer::Load(model_).value()),
        chat_(LoadChatTemplate(model_).value()),
        form_(*AskedForm::Make(chat_, *tokenizer_)),
        dir_(::testing::TempDir() + "corpus_reader_test") {
    std::filesystem::remove_all(dir_);
    std::filesystem::create_directories(dir_);
  }

  std::string Decoded(const std::vector<int32_t>& tokens) const {
    return tokenizer_->Decode(tokens, /*skip_special_tokens=*/false);
  }
  static std::string Line(int i) {
    return R"({"text": "Page )" + std::to_string(i) + R"(. It costs £5. It is red.", )" +
           R"("questions": [{"question": "What colour?", "answer": "red", )" +
           R"("begin": 22, "end": 32}]})";
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ + "/" + name) << text;
  }

  const std::string model_;
  const std::unique_ptr<Tokenizer> tokenizer_;
  const std::optional<ChatTemplate> chat_;
  const AskedForm form_;
  const std::string dir_;
};

// As users ask, and as the base is asked with the document before the question.
TEST_F(CorpusReaderTest, AQuestionIsAskedAsTheTeacherIsTaught) {
  const TaughtQuestion taught = *form_.Ask("Who?", "Finch");
  const DistillPrompt prompt = *ChatPrompt(*chat_, *tokenizer_, "Who?");
  EXPECT_EQ(form_.start(), prompt.before);
  EXPECT_EQ(taught.behind, prompt.behind);
  EXPECT_EQ(taught.prompt, prompt.student);
  EXPECT_EQ(taught.answer, TaskQuestionOf(&*chat_, *tokenizer_, "Who?", "Finch")->answer);
  EXPECT_EQ(form_.prompt_start(), 1);

  const AskedForm plain = *AskedForm::Make({}, *tokenizer_);
  const TaughtQuestion said = *plain.Ask("Who?", "Finch");
  const TaskQuestion task = *TaskQuestionOf(nullptr, *tokenizer_, "Who?", "Finch");
  EXPECT_EQ(said.prompt, task.prompt);
  EXPECT_EQ(said.answer, task.answer);
  EXPECT_EQ(said.behind, PlainPrompt(*tokenizer_, "\n\n" + PlainQuestion("Who?"))->behind);
  EXPECT_EQ(plain.start(), tokenizer_->prefix_ids());
}

// Places are characters, of which some have several bytes.
TEST_F(CorpusReaderTest, APlaceIsTheTokensThatHaveIt) {
  const TaughtDocument document = **TaughtDocumentOf(Line(1), form_, *tokenizer_);
  const TaughtQuestion& question = document.questions[0];
  const std::vector<int32_t> there(document.tokens.begin() + question.begin,
                                   document.tokens.begin() + question.end);
  EXPECT_NE(Decoded(there).find("It is red."), std::string::npos) << Decoded(there);
  EXPECT_LT(there.size(), document.tokens.size());
  const TaughtDocument without = **TaughtDocumentOf(
      R"({"text": "It is red.", "questions": [{"question": "What?", "answer": "red"}]})", form_,
      *tokenizer_);
  EXPECT_EQ(without.questions[0].begin, 0);
  EXPECT_EQ(without.questions[0].end, std::ssize(without.tokens));
}

TEST_F(CorpusReaderTest, ReadsFilesInTheOrderOfTheirNames) {
  std::string first;
  for (int i = 0; i < 40; ++i) first += Line(i) + "\n";
  first += R"({"text": "nothing is asked", "questions": []})"
           "\n\n";
  Write("a.jsonl", first);
  Write("b.jsonl", Line(40) + "\n" + Line(41));
  Write("other.txt", "no line of a corpus");
  for (const int skipped : {0, 17, 41}) {
    const auto reader = *CorpusReader::Open(dir_, 3, form_, *tokenizer_);
    ASSERT_TRUE(reader->Skip(skipped).ok());
    for (int i = skipped; i < 42; ++i) {
      const auto document = *reader->Next();
      ASSERT_TRUE(document.has_value());
      EXPECT_EQ(Decoded(document->tokens).find("Page " + std::to_string(i) + "."), 0u) << i;
    }
    EXPECT_FALSE(reader->Next()->has_value());
  }
}

TEST_F(CorpusReaderTest, SaysWhereALineIsWrong) {
  Write("a.jsonl", Line(0) + "\n{\"text\": 5}\n");
  const auto reader = *CorpusReader::Open(dir_ + "/a.jsonl", 2, form_, *tokenizer_);
  EXPECT_EQ(reader->Next().status().ToString(),
            "INVALID_ARGUMENT: " + dir_ + "/a.jsonl:2: has no text \"text\"");
  EXPECT_EQ(CorpusReader::Open(dir_ + "/none", 2, form_, *tokenizer_).status().code(),
            StatusCode::kNotFound);
}

}  // namespace corpus_reader_test
}  // namespace graft
