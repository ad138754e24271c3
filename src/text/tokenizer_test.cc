#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "base/long_tests.h"
#include "text/text_test_util.h"

namespace graft {
namespace {

using Ids = std::vector<int32_t>;

TEST(TokenizerTest, DemoEqualsHf) {
  const auto tokenizer = Tokenizer::Load(SourceDir() + "/demo/base");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const auto golden = ParseJsonFile(SourceDir() + "/demo/golden_tokenizer.json");
  ASSERT_TRUE(golden.ok()) << golden.status().ToString();
  ASSERT_FALSE(golden->empty());
  for (const Json& entry : *golden) {
    const auto text = entry["text"].get<std::string>();
    const auto plain = entry["ids_plain"].get<Ids>();
    EXPECT_EQ(*(*tokenizer)->Encode(text, true), entry["ids"].get<Ids>()) << text;
    EXPECT_EQ(*(*tokenizer)->Encode(text, false), plain) << text;
    EXPECT_EQ((*tokenizer)->Decode(plain, false), entry["decoded"].get<std::string>());
  }
  EXPECT_EQ((*tokenizer)->bos_token(), "<|begin_of_text|>");
  EXPECT_EQ((*tokenizer)->eos_token(), "<|end_of_text|>");
  EXPECT_EQ((*tokenizer)->vocab_size(), 8192);
  EXPECT_TRUE((*tokenizer)->IsSpecial(0));
  EXPECT_FALSE((*tokenizer)->IsSpecial(4));
  EXPECT_EQ((*tokenizer)->TokenId("<|end|>"), 3);
  EXPECT_EQ((*tokenizer)->TokenId("no such token"), std::nullopt);
}

TEST(TokenizerTest, EveryComponentEqualsHf) {
  const Json goldens = ComponentGoldens();
  int num_cases = 0;
  ForEachComponent(goldens, [&](const Json& entry, const Tokenizer& tokenizer) {
    for (size_t i = 0; i < goldens["texts"].size(); ++i) {
      const auto text = goldens["texts"][i].get<std::string>();
      const auto ids = entry["ids"][i].get<Ids>();
      EXPECT_EQ(*tokenizer.Encode(text, true), ids) << text;
      EXPECT_EQ(*tokenizer.Encode(text, true), ids) << "again, from the cache: " << text;
      EXPECT_EQ(tokenizer.Decode(ids, false), entry["decoded"][i].get<std::string>());
    }
    EXPECT_EQ(tokenizer.Decode(entry["odd_ids"].get<Ids>(), true),
              entry["odd_decoded"].get<std::string>());
    ++num_cases;
  });
  EXPECT_GE(num_cases, 50);
}

std::vector<std::string> SplitAt(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos;
       begin = end + separator.size()) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// Texts and ids of llama.cpp's tests, for the vocabularies that have a tokenizer here.
TEST(TokenizerTest, PublicVectors) {
  if (!FileExists(ConformanceDir())) GTEST_SKIP() << "no ../shared/conformance";
  for (const auto& [vectors, model] :
       {std::pair("llama-spm", "TinyLlama-1.1B-Chat-v1.0"), std::pair("phi-3", "Phi-3-mini")}) {
    const auto tokenizer = Tokenizer::Load(ConformanceDir() + "/tokenizers/" + model);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    const std::string base =
        ConformanceDir() + "/tokenizer_vectors/ggml-vocab-" + vectors + ".gguf";
    const auto inputs = ReadFile(base + ".inp");
    const auto outputs = ReadFile(base + ".out");
    ASSERT_TRUE(inputs.ok() && outputs.ok()) << base;
    const std::vector<std::string> texts = SplitAt(*inputs, "\n__ggml_vocab_test__\n");
    const std::vector<std::string> lines = SplitAt(*outputs, "\n");
    ASSERT_GT(texts.size(), 40u);
    for (size_t i = 0; i + 1 < texts.size(); ++i) {
      std::istringstream stream(lines.at(i));
      const Ids expected{std::istream_iterator<int32_t>(stream), {}};
      EXPECT_EQ(*(*tokenizer)->Encode(texts[i], false), expected) << vectors << ": " << texts[i];
    }
  }
}

// tokenizer.model through sentencepiece, and tokenizer.json through our own BPE, must give the same
// ids.
TEST(TokenizerTest, SentencePieceEqualsJson) {
  if (!FileExists(ConformanceDir())) GTEST_SKIP() << "no ../shared/conformance";
  const std::string dir = ConformanceDir() + "/tokenizers/Mistral-7B-Instruct-v0.3";
  const std::string copy = testing::TempDir() + "/sentencepiece_only";
  std::filesystem::create_directories(copy);
  for (const char* file : {"/tokenizer.model", "/tokenizer_config.json"}) {
    std::filesystem::copy_file(dir + file, copy + file,
                               std::filesystem::copy_options::overwrite_existing);
  }
  const auto json = Tokenizer::Load(dir);
  const auto model = Tokenizer::Load(copy);
  ASSERT_TRUE(json.ok()) << json.status().ToString();
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ((*model)->bos_token(), "<s>");
  EXPECT_EQ((*model)->vocab_size(), (*json)->vocab_size());
  const Json goldens = ComponentGoldens();
  for (const Json& entry : goldens["texts"]) {
    const std::string text =
        entry.get<std::string>() + "[INST] x[/INST]" + entry.get<std::string>();
    const auto ids = (*json)->Encode(text, true);
    EXPECT_EQ(*(*model)->Encode(text, true), *ids) << text;
    EXPECT_EQ((*model)->Decode(*ids, true), (*json)->Decode(*ids, true));
  }
}

TEST(TokenizerTest, LlamaClassObeysAddBosToken) {
  const Json file = ComponentGoldens()["families"][1]["tokenizer"];
  const auto encode = [&](const char* config) {
    const auto tokenizer = Tokenizer::Parse(DumpJson(file), config);
    CHECK(tokenizer.ok()) << tokenizer.status().ToString();
    return *(*tokenizer)->Encode("", true);
  };
  EXPECT_EQ(encode(R"({"bos_token":"<s>","add_bos_token":true})"), Ids());
  const std::string llama = R"({"tokenizer_class":"LlamaTokenizerFast","bos_token":"<s>",)";
  EXPECT_EQ(encode((llama + R"("add_bos_token":true})").c_str()), Ids({1}));
  EXPECT_EQ(encode((llama + R"("add_bos_token":false,"add_eos_token":true,)" +
                    R"("eos_token":{"content":"</s>"}})")
                       .c_str()),
            Ids({2}));
}

TEST(TokenizerTest, ConfigBringsTokensTheFileLacks) {
  const Json file = ComponentGoldens()["families"][0]["tokenizer"];
  const auto tokenizer = Tokenizer::Parse(
      DumpJson(file), R"({"added_tokens_decoder":{"900":{"content":"<|tool|>","special":true}},
                          "eos_token":"the"})");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->Encode("<|tool|>", false)->front(), 900);
  EXPECT_EQ((*tokenizer)->vocab_size(), 901);
  EXPECT_EQ((*tokenizer)->Decode(Ids{900}, false), "<|tool|>");
  EXPECT_EQ((*tokenizer)->Decode(Ids{900}, true), "");
}

TEST(TokenizerTest, TokenBytesOfEveryKind) {
  const auto byte_level = GoldenTokenizer(0);
  EXPECT_EQ(byte_level->TokenBytes(*byte_level->TokenId("Ġthe")), " the");
  EXPECT_EQ(byte_level->TokenBytes(*byte_level->TokenId("Ã")), "\xC3");
  EXPECT_EQ(byte_level->TokenBytes(0), "<s>");
  const auto metaspace = GoldenTokenizer(1);
  EXPECT_EQ(metaspace->TokenBytes(*metaspace->TokenId("<0xE4>")), "\xE4");
  EXPECT_EQ(metaspace->TokenBytes(*metaspace->TokenId("▁the")), " the");
  for (const int32_t id : {-1, 1'000'000}) {
    EXPECT_EQ(metaspace->TokenBytes(id), "");
    EXPECT_EQ(metaspace->Decode(Ids{id}, false), "");
    EXPECT_FALSE(metaspace->IsSpecial(id));
  }
}

// In a byte-level vocabulary the bytes of the tokens must be the bytes of the text, for every text.
TEST(TokenizerTest, TokenBytesJoinToTheText) {
  const auto tokenizer = GoldenTokenizer(0);
  const Json goldens = ComponentGoldens();
  for (const Json& entry : goldens["texts"]) {
    const auto text = entry.get<std::string>();
    const auto ids = tokenizer->Encode(text, false);
    std::string bytes;
    for (const int32_t id : *ids) bytes += tokenizer->TokenBytes(id);
    EXPECT_EQ(bytes, text);
  }
}

TEST(TokenizerTest, RefusesTextThatIsNotUtf8) {
  const auto tokenizer = GoldenTokenizer(0);
  for (const char* text : {"\xFF", "a\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    EXPECT_EQ(tokenizer->Encode(text, true).status().code(), StatusCode::kInvalidArgument);
  }
}

// Megabyte inputs without a place to split. A quadratic algorithm would not finish.
TEST(TokenizerTest, LongWordsTakeTimeInProportion) {
  const size_t num_bytes = LongTests() ? 1 << 20 : 1 << 17;
  for (const int family : {0, 1}) {
    const auto tokenizer = GoldenTokenizer(family);
    for (const char* unit : {"a", " ", "\n", "th", "\xE2\x96\x81", " \n", "'"}) {
      std::string text;
      while (text.size() < num_bytes) text += unit;
      text += "x";
      const auto ids = tokenizer->Encode(text, false);
      ASSERT_TRUE(ids.ok()) << ids.status().ToString();
      EXPECT_GT(ids->size(), 0u);
      if (family == 0) {
        EXPECT_EQ(tokenizer->Decode(*ids, false), text);
      }
    }
  }
}

TEST(TokenizerTest, ARegexThatExplodesIsAnErrorNotAHang) {
  Json file = ComponentGoldens()["families"][0]["tokenizer"];
  file["pre_tokenizer"] =
      Json{{"type", "Split"}, {"pattern", {{"Regex", "(?:a|aa)+[bc]"}}}, {"behavior", "Isolated"}};
  const auto tokenizer = Tokenizer::Parse(DumpJson(file), "");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const Status status = (*tokenizer)->Encode(std::string(5000, 'a'), false).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
}

TEST(TokenizerTest, RefusesByName) {
  struct Refusal {
    const char* patch;
    const char* named;
  };
  for (const Refusal& refusal : std::initializer_list<Refusal>{
           {R"({"model":{"type":"Unigram","vocab":[["a",0.5]]}})", "Unigram"},
           {R"({"model":{"type":"WordPiece","vocab":{"a":0}}})", "WordPiece"},
           {R"({"normalizer":{"type":"Precompiled"}})", "Precompiled"},
           {R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Nmt"}]}})", "Nmt"},
           {R"({"pre_tokenizer":{"type":"UnicodeScripts"}})", "UnicodeScripts"},
           {R"({"post_processor":{"type":"Martian"}})", "Martian"},
           {R"({"decoder":{"type":"CTC"}})", "CTC"},
           {R"({"decoder":{"type":"WordPiece"}})", "WordPiece"},
           {R"({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"[a&&b]"}}})", "&&"}}) {
    Json file = ComponentGoldens()["families"][0]["tokenizer"];
    file.merge_patch(*ParseJson(refusal.patch));
    const auto tokenizer = Tokenizer::Parse(DumpJson(file), "");
    ASSERT_FALSE(tokenizer.ok()) << refusal.patch;
    EXPECT_EQ(tokenizer.status().code(), StatusCode::kUnimplemented) << refusal.patch;
    EXPECT_NE(tokenizer.status().message().find(refusal.named), std::string::npos)
        << tokenizer.status().message();
  }
  Json file = ComponentGoldens()["families"][0]["tokenizer"];
  file["model"]["dropout"] = 0.1;
  EXPECT_EQ(Tokenizer::Parse(DumpJson(file), "").status().code(), StatusCode::kUnimplemented);
}

TEST(TokenizerTest, WrongFilesAreErrors) {
  const char* const kModel = R"("model":{"type":"BPE","merges":[],"vocab":)";
  for (const std::string& text :
       {std::string(""), std::string("{"), std::string("[]"), std::string("{}"),
        std::string(R"({"model":7})"), std::string(R"({"model":{"type":"BPE"}})"),
        std::string("{") + kModel + R"({"a":-1}}})", std::string("{") + kModel + R"({"a":1e9}}})",
        std::string("{") + kModel + R"({"a":900000000}}})",
        std::string("{") + kModel + R"({"a":["b"]}}})",
        std::string(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a b"]}})"),
        std::string(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":["a"]}})"),
        std::string(R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","a","a"]]}})"),
        std::string(R"({"model":{"type":"BPE","vocab":{},"merges":[],"unk_token":"u"}})"),
        std::string(R"({"decoder":[],)") + kModel + "{}}}",
        std::string(R"({"added_tokens":[{"id":-1,"content":"x"}],)") + kModel + "{}}}",
        std::string(100, '[')}) {
    EXPECT_EQ(Tokenizer::Parse(text, "").status().code(), StatusCode::kInvalidArgument) << text;
  }
  EXPECT_EQ(Tokenizer::Load("/nonexistent").status().code(), StatusCode::kNotFound);
}

TEST(TokenizerTest, ManyThreadsShareOne) {
  const auto tokenizer = GoldenTokenizer(1);
  const Json goldens = ComponentGoldens();
  std::vector<std::string> texts;
  std::vector<Ids> expected;
  for (const Json& entry : goldens["texts"]) {
    texts.push_back(entry.get<std::string>());
    expected.push_back(*tokenizer->Encode(texts.back(), true));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (size_t round = 0; round < 200; ++round) {
        const size_t which = (round + i) % texts.size();
        EXPECT_EQ(*tokenizer->Encode(texts[which], true), expected[which]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace graft
