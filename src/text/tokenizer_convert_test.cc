// Older kinds of tokenizer files, and transformers 5's LlamaTokenizer, against the originals'
// results (tests/goldens/tokenizer/older.json, made by make_older.py beside it).
#include "text/tokenizer_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "text/text_test_util.h"

namespace graft {
namespace tokenizer_convert_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;

Json OlderGoldens() {
  Result<Json> json = ParseJsonFile(SourceDir() + "/tests/goldens/tokenizer/older.json");
  CHECK(json.ok()) << json.status().ToString();
  return *std::move(json);
}

class TokenizerConvertTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }
  void ExpectIds(const Tokenizer& tokenizer, const Json& texts, const Json& ids) {
    ASSERT_EQ(texts.size(), ids.size());
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto text = texts[i].get<std::string>();
      EXPECT_EQ(*tokenizer.Encode(text, false), ids[i].get<Ids>()) << text;
    }
  }

  const std::string folder_ = ::testing::TempDir() + "/graft_tokenizer_" +
                              ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(TokenizerConvertTest, VocabAndMergesEqualHf) {
  const Json goldens = OlderGoldens();
  const Json& golden = goldens["vocab_and_merges"];
  Write("vocab.json", DumpJson(ComponentGoldens()["families"][0]["tokenizer"]["model"]["vocab"]));
  Write("merges.txt", golden["merges"].get<std::string>());
  for (const Json& entry : golden["cases"]) {
    SCOPED_TRACE(DumpJson(entry["config"]));
    Write("tokenizer_config.json", DumpJson(entry["config"]));
    const auto tokenizer = Tokenizer::Load(folder_);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    ExpectIds(**tokenizer, goldens["texts"], entry["ids"]);
    EXPECT_TRUE((*tokenizer)->IsSpecial(*(*tokenizer)->TokenId("<|endoftext|>")));
    const Ids ids = *(*tokenizer)->Encode("x <|endoftext|> y", false);
    EXPECT_TRUE((*tokenizer)->Decode(ids, true).ends_with("x  y"));
  }
}

TEST_F(TokenizerConvertTest, TheModelTellsTheClassWhereNoConfigDoes) {
  const Json goldens = OlderGoldens();
  const Json& golden = goldens["vocab_and_merges"];
  Write("vocab.json", DumpJson(ComponentGoldens()["families"][0]["tokenizer"]["model"]["vocab"]));
  Write("merges.txt", golden["merges"].get<std::string>());
  const Status status = Tokenizer::Load(folder_).status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("Qwen2Tokenizer or GPT2Tokenizer"));
  // DialoGPT's and GPT-Neo's folders say no more than their model's type.
  for (const char* type : {"qwen3", "gpt2", "gpt_neo", "starcoder2"}) {
    Write("config.json", DumpJson({{"model_type", type}}));
    const auto tokenizer = Tokenizer::Load(folder_);
    ASSERT_TRUE(tokenizer.ok()) << type << ": " << tokenizer.status().ToString();
    EXPECT_EQ((*tokenizer)->eos_token(), "<|endoftext|>");
  }
  Write("config.json", R"({"model_type": "phi"})");
  EXPECT_EQ(Tokenizer::Load(folder_).status().code(), StatusCode::kUnimplemented);
}

TEST_F(TokenizerConvertTest, WrongVocabAndMergesAreErrors) {
  Write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
  const auto message_of = [&](const char* vocab, const char* merges) {
    Write("vocab.json", vocab);
    Write("merges.txt", merges);
    return Tokenizer::Load(folder_).status().message();
  };
  EXPECT_THAT(message_of("[]", ""), HasSubstr("vocab.json must hold an object"));
  EXPECT_THAT(message_of(R"({"a": "x"})", ""), HasSubstr("the id of token 'a'"));
  EXPECT_THAT(message_of(R"({"a": 0})", "#version: 0.2\na\n"), HasSubstr("merges.txt, line 2"));
  EXPECT_THAT(message_of(R"({"a": 0})", "a a\n"), HasSubstr("('a', 'a')"));
}

TEST_F(TokenizerConvertTest, TiktokenEqualsTiktoken) {
  const Json goldens = OlderGoldens();
  const Json& golden = goldens["tiktoken"];
  Write("tokenizer.model", golden["file"].get<std::string>());
  Json decoder = Json::object();
  for (const auto& [content, id] : golden["special"].items()) {
    decoder[std::to_string(id.get<int>())] = {{"content", content}, {"special", true}};
  }
  Write("tokenizer_config.json", DumpJson({{"added_tokens_decoder", decoder}}));
  const auto tokenizer = Tokenizer::Load(folder_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  ExpectIds(**tokenizer, goldens["texts"], golden["ids"]);
  for (const Json& text : goldens["texts"]) {
    const Ids ids = *(*tokenizer)->Encode(text.get<std::string>(), false);
    EXPECT_EQ((*tokenizer)->Decode(ids, false), text.get<std::string>());
  }
}

TEST_F(TokenizerConvertTest, AFileOfLlama3sSizeHasItsSpecialTokens) {
  std::string file;
  // 128,000 tokens of two bytes. The real file has other tokens, but as many.
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (int i = 0; i < 128'000; ++i) {
    for (const int shift : {12, 6, 0}) file += kDigits[static_cast<size_t>(i >> shift & 63)];
    file += kDigits[static_cast<size_t>(i % 64)];
    file += " " + std::to_string(i) + "\n";
  }
  Write("tokenizer.model", file);
  const auto tokenizer = Tokenizer::Load(folder_);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->bos_token(), "<|begin_of_text|>");
  EXPECT_EQ((*tokenizer)->eos_token(), "<|end_of_text|>");
  EXPECT_EQ((*tokenizer)->vocab_size(), 128'256);
  EXPECT_EQ((*tokenizer)->Encode("", true)->at(0), 128'000);
  for (const auto& [content, id] :
       {std::pair("<|eot_id|>", 128'009), std::pair("<|finetune_right_pad_id|>", 128'004),
        std::pair("<|reserved_special_token_2|>", 128'005), std::pair("<|python_tag|>", 128'010),
        std::pair("<|reserved_special_token_3|>", 128'011),
        std::pair("<|reserved_special_token_247|>", 128'255)}) {
    EXPECT_EQ((*tokenizer)->TokenId(content), id) << content;
    EXPECT_TRUE((*tokenizer)->IsSpecial(id));
  }
}

TEST_F(TokenizerConvertTest, ABrokenTiktokenFileNamesTheLine) {
  Write("tokenizer.model", "IQ== 0\nIg== 1\n?? 2\n");
  EXPECT_THAT(Tokenizer::Load(folder_).status().message(), HasSubstr("tiktoken file, line 3"));
  Write("tokenizer.model", "\x0A\x0Bnone of all");
  EXPECT_THAT(Tokenizer::Load(folder_).status().message(), HasSubstr("not a sentencepiece model"));
}

TEST_F(TokenizerConvertTest, LlamaByTransformers5) {
  const Json goldens = OlderGoldens();
  const std::string file = DumpJson(ComponentGoldens()["families"][1]["tokenizer"]);
  for (const Json& entry : goldens["llama_transformers5"]) {
    SCOPED_TRACE(DumpJson(entry["config"]));
    const auto tokenizer =
        Tokenizer::Parse(file, DumpJson(entry["config"]), TokenizerRules::kTransformers5);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    ExpectIds(**tokenizer, goldens["texts"], entry["ids"]);
    for (size_t i = 0; i < goldens["texts"].size(); ++i) {
      EXPECT_EQ((*tokenizer)->Decode(entry["ids"][i].get<Ids>(), false),
                entry["decoded"][i].get<std::string>());
    }
  }
}

TEST_F(TokenizerConvertTest, OtherClassesAreAsTheirFilesSay) {
  const std::string file = DumpJson(ComponentGoldens()["families"][1]["tokenizer"]);
  const std::string config = R"({"tokenizer_class": "PreTrainedTokenizerFast", "legacy": false})";
  const auto by_file = Tokenizer::Parse(file, config);
  const auto by_class = Tokenizer::Parse(file, config, TokenizerRules::kTransformers5);
  ASSERT_TRUE(by_file.ok() && by_class.ok());
  EXPECT_EQ(*(*by_file)->Encode("a<s> b", false), *(*by_class)->Encode("a<s> b", false));
}

TEST_F(TokenizerConvertTest, TokensBeyondTheModelAreNamed) {
  const auto tokenizer = GoldenTokenizer(0);
  const int32_t size = tokenizer->vocab_size();
  EXPECT_EQ(tokenizer->TokensBeyond(size), "");
  EXPECT_EQ(tokenizer->TokensBeyond(size + 100), "");
  const std::string two = tokenizer->TokensBeyond(size - 2);
  EXPECT_THAT(two, HasSubstr("2 tokens"));
  EXPECT_THAT(two, HasSubstr("(" + std::to_string(size - 2) + ")"));
  EXPECT_THAT(two, HasSubstr("(" + std::to_string(size - 1) + ")"));
  EXPECT_THAT(tokenizer->TokensBeyond(0), HasSubstr(", ...;"));
}

}  // namespace tokenizer_convert_test
}  // namespace graft
