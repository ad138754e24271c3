#include "text/chat/adapter_text_reader.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "base/file.h"
#include "base/unwanted_work.h"
#include "text/chat/chat_template.h"
#include "text/text_test_util.h"

namespace graft {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Against the demo's base: eos is tokens 1 and 3, <|start|> is 2, and the vocabulary ends at 8191.
class AdapterTextReaderTest : public testing::Test {
 protected:
  ReadBesideAdapter Files() {
    return [this](const std::string& name) -> Result<std::optional<std::string>> {
      const auto file = files_.find(name);
      if (file == files_.end()) return std::optional<std::string>();
      return std::optional<std::string>(file->second);
    };
  }
  AdapterTextPtr Read() {
    Result<AdapterTextPtr> text = reader_->Read(Files());
    EXPECT_TRUE(text.ok()) << text.status().ToString();
    return text.ok() ? *text : nullptr;
  }
  std::string Refusal() {
    const Status read = reader_->Read(Files()).status();
    const Status status = read.ok() ? reader_->CheckVocabulary(Files()) : read;
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(files_.begin()->first));
    return status.message();
  }
  static std::string OfBase(const std::string& file) {
    return ReadFile(base_ + "/" + file).value();
  }

  static std::string WithOtherMerges() {
    Json tokenizer = Json::parse(OfBase("tokenizer.json"));
    Json& merges = tokenizer["model"]["merges"];
    std::swap(merges[0], merges[merges.size() - 1]);
    return tokenizer.dump();
  }

  static inline const std::string base_ = SourceDir() + "/demo/base";
  std::unique_ptr<AdapterTextReader> reader_ = AdapterTextReader::Load(base_, {1, 3}, 8192).value();
  std::map<std::string, std::string> files_;
};

TEST_F(AdapterTextReaderTest, CopiesOfTheBasesFilesSayNothing) {
  EXPECT_EQ(Read(), nullptr);
  for (const char* file : {"chat_template.jinja", "tokenizer_config.json", "generation_config.json",
                           "tokenizer.json"}) {
    files_[file] = OfBase(file);
  }
  EXPECT_EQ(Read(), nullptr);
  EXPECT_TRUE(reader_->CheckVocabulary(Files()).ok());
}

TEST_F(AdapterTextReaderTest, WhiteSpaceAroundATemplateMakesNoOther) {
  const std::string own = OfBase("chat_template.jinja");
  std::string windows;
  for (const char c : own) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  for (const std::string& same : {"\n" + own + "\n\n", windows}) {
    files_ = {{"chat_template.jinja", same}};
    EXPECT_EQ(Read(), nullptr);
    files_ = {{"tokenizer_config.json", DumpJson({{"chat_template", same}})}};
    EXPECT_EQ(Read(), nullptr);
  }
  files_ = {{"chat_template.jinja", own + "x"}};
  EXPECT_EQ(Read()->chat_template, own + "x");
}

TEST_F(AdapterTextReaderTest, TakesTemplatesAsModelsHaveThem) {
  files_ = {{"tokenizer_config.json", R"({"chat_template": [
                {"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]})"}};
  EXPECT_EQ(*Read(), (AdapterText{.chat_template = "a", .tool_template = "b"}));
  files_["chat_template.jinja"] = "{% bad";
  EXPECT_EQ(*Read(), AdapterText{.chat_template = "{% bad"});
}

// Chat alone is refused with the adapter then.
TEST_F(AdapterTextReaderTest, ATemplateThatCannotBeKeptIsToldAndRefusesNothing) {
  const std::string list = R"({"chat_template": [{"name": "tool_use", "template": "x"}]})";
  const auto expect = [&](const std::string& file, const std::string& bytes, const char* why) {
    files_ = {{file, bytes}, {"generation_config.json", R"({"eos_token_id": 2})"}};
    const AdapterTextPtr text = Read();
    ASSERT_NE(text, nullptr);
    EXPECT_THAT(text->template_error, AllOf(HasSubstr(file), HasSubstr(why)));
    EXPECT_EQ(*text, (AdapterText{.template_error = text->template_error, .stop_token_ids = {2}}));
    EXPECT_EQ(ChatTemplate::Parse(*text).status().message(), text->template_error);
    EXPECT_EQ(DecodeAdapterText(EncodeAdapterText(text)).value(), text);
  };
  expect("chat_template.jinja", "\xff", "UTF-8");
  expect("chat_template.jinja", std::string(kChatTemplateBytesMax + 1, 'x'), "limit");
  expect("tokenizer_config.json", list, "default");
  expect("tokenizer_config.json", R"({"chat_template": 7})", "neither");
}

TEST_F(AdapterTextReaderTest, OfAGenerationConfigOnlyTheEndIsTaken) {
  files_ = {{"generation_config.json", R"({"eos_token_id": [3, 7, 2, 7], "temperature": 0.1})"}};
  EXPECT_THAT(Read()->stop_token_ids, ElementsAre(2, 7));
  files_ = {{"generation_config.json", R"({"eos_token_id": 1})"}};
  EXPECT_EQ(Read(), nullptr);
  for (const char* bad : {R"({"eos_token_id": 8192})", R"({"eos_token_id": -1})",
                          R"({"eos_token_id": "x"})", R"({"eos_token_id": [1.5]})", "[]", "{"}) {
    files_ = {{"generation_config.json", bad}};
    EXPECT_FALSE(Refusal().empty()) << bad;
  }
}

TEST_F(AdapterTextReaderTest, AnotherEndOfSequenceEndsAnswersAndIsTheTemplates) {
  files_ = {{"tokenizer_config.json", R"({"eos_token": "<|start|>"})"}};
  EXPECT_EQ(*Read(), (AdapterText{.eos_token = "<|start|>", .stop_token_ids = {2}}));
  files_ = {{"special_tokens_map.json", R"({"bos_token": {"content": "<|start|>"}})"}};
  EXPECT_EQ(*Read(), AdapterText{.bos_token = "<|start|>"});
  files_ = {{"tokenizer_config.json", R"({"eos_token": "<|new|>"})"}};
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("<|new|>"), HasSubstr("--adapter-text base")));
}

TEST_F(AdapterTextReaderTest, AnotherVocabularyIsRefusedByItsFirstOtherToken) {
  files_ = {{"added_tokens.json", R"({"<|start|>": 2})"}};
  EXPECT_EQ(Read(), nullptr);
  files_ = {{"added_tokens.json", R"({"<|start|>": 2, "<|new|>": 8192})"}};
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("<|new|>"), HasSubstr("8192")));
  files_ = {
      {"tokenizer_config.json", R"({"added_tokens_decoder": {"5": {"content": "<|start|>"}}})"}};
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("<|start|>"), HasSubstr("as 2")));
  for (const char* const file : {"special_tokens_map.json", "tokenizer_config.json"}) {
    files_ = {{file, R"({"additional_special_tokens": ["<|start|>"]})"}};
    EXPECT_EQ(Read(), nullptr);
    files_ = {{file, R"({"additional_special_tokens": ["<|start|>", {"content": "<|new|>"}]})"}};
    EXPECT_THAT(Refusal(), AllOf(HasSubstr("<|new|>"), HasSubstr("another vocabulary")));
  }
  Json tokenizer = Json::parse(OfBase("tokenizer.json"));
  files_ = {{"tokenizer.json", tokenizer.dump(4)}};  // of the same content
  EXPECT_TRUE(reader_->CheckVocabulary(Files()).ok());
  tokenizer["added_tokens"][2]["content"] = "<|turn|>";
  files_ = {{"tokenizer.json", tokenizer.dump()}};
  EXPECT_THAT(Refusal(), HasSubstr("<|turn|>"));
  EXPECT_THAT(Refusal(), HasSubstr("<|turn|>"));  // as it is remembered
  files_ = {{"tokenizer.json", WithOtherMerges()}};
  EXPECT_THAT(Refusal(), HasSubstr("merges"));
  files_ = {{"vocab.json", R"({"<|start|>": 2})"}};
  EXPECT_TRUE(reader_->CheckVocabulary(Files()).ok());
  files_ = {{"vocab.json", R"({"<|start|>": 3})"}};
  EXPECT_THAT(Refusal(), HasSubstr("<|start|>"));
  files_ = {{"tokenizer.model", "no model"}};
  EXPECT_FALSE(Refusal().empty());
}

// What is kept for all is learned in whole, even if the request that came first has left.
TEST_F(AdapterTextReaderTest, UnwantedWorkLearnsWhatWantedWorkWould) {
  const std::string own_template = OfBase("chat_template.jinja");
  const std::string merges = WithOtherMerges();
  const std::atomic<bool> is_unwanted = true;
  {
    const WatchedWork watched(is_unwanted);
    Result<std::unique_ptr<AdapterTextReader>> reader = AdapterTextReader::Load(base_, {1}, 8192);
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    reader_ = *std::move(reader);
    files_ = {{"tokenizer.json", merges}};
    EXPECT_THAT(Refusal(), HasSubstr("merges"));
  }
  EXPECT_THAT(Refusal(), HasSubstr("merges"));
  files_ = {{"chat_template.jinja", own_template}};
  EXPECT_EQ(Read(), nullptr) << "it is the base's";
}

TEST_F(AdapterTextReaderTest, ABaseThatCannotBeReadLeavesNoAnswer) {
  std::string folder = testing::TempDir() + "base_XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string file = folder + "/tokenizer.json";
  std::filesystem::copy_file(base_ + "/tokenizer.json", file);
  reader_ = AdapterTextReader::Load(folder, {1, 3}, 8192).value();
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  files_ = {{"tokenizer.json", WithOtherMerges()}};
  EXPECT_THAT(reader_->CheckVocabulary(Files()).message(), HasSubstr(folder));
  std::filesystem::remove(file);
  std::filesystem::copy_file(base_ + "/tokenizer.json", file);
  EXPECT_THAT(Refusal(), HasSubstr("merges"));
  std::filesystem::remove_all(folder);
}

TEST_F(AdapterTextReaderTest, ABaseWithoutATokenizerComparesNoTokens) {
  reader_ = AdapterTextReader::Load(SourceDir() + "/docs", {1}, 8192).value();
  files_ = {{"added_tokens.json", R"({"<|new|>": 8192})"},
            {"generation_config.json", R"({"eos_token_id": 2})"},
            {"chat_template.jinja", "x"},
            {"tokenizer.json", "{}"}};
  EXPECT_EQ(*Read(), (AdapterText{.chat_template = "x", .stop_token_ids = {2}}));
  EXPECT_TRUE(reader_->CheckVocabulary(Files()).ok());
}

}  // namespace
}  // namespace graft
