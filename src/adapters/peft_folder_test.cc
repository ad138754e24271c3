#include "adapters/peft_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>

#include "adapters/adapter_test_util.h"

namespace graft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::SourcePath;
using testing::TempDir;
using testing::WriteAdapter;
using testing::WriteFile;

constexpr int64_t kBytesMax = 1 << 30;
const std::string kConfig = "{\"r\": 8}\n";
const std::string kWeights = std::string("\x00\x01\x02\xff", 4) + "weights";

std::string HashOf(const std::string& path) {
  const Result<PeftFolder> folder = ReadPeftFolder(path, kBytesMax);
  return folder.ok() ? AdapterHash(*folder) : folder.status().ToString();
}

// In Python: sha256(pack('<Q', len(config)) + config + pack('<Q', len(weights)) + weights).
TEST(PeftFolderTest, HashIsTheDocumentedOne) {
  const TempDir dir;
  WriteAdapter(dir.File("a"), kConfig, kWeights);
  EXPECT_EQ(HashOf(dir.File("a")),
            "6602e260dd495754593dba2542fb8fc9d949a7522f9e48c3e75e1e158f13befb");
  EXPECT_EQ(AdapterHash({}), "374708fff7719dd5979ec875d56cd2286f6d3cf7ec317a3b25632aab28ec37bb");
  EXPECT_EQ(HashOf(SourcePath("demo/adapters/austen")),
            "b41d2bde4c2c9debe22efc517ce4b157c03a3e31046c31d9c79eda12fcc3e5ab");
  EXPECT_EQ(HashOf(SourcePath("demo/adapters/montgomery")),
            "f792bf852db78ef3a2481ff617c13af3dd73090fa0b975efc810bb4890aece22");
}

TEST(PeftFolderTest, HashIsOfTheContentAlone) {
  const TempDir dir;
  WriteAdapter(dir.File("a"), kConfig, kWeights);
  WriteAdapter(dir.File("another name"), kConfig, kWeights);
  WriteFile(dir.File("another name") + "/README.md", "a model card is no part of an adapter");
  const std::string hash = HashOf(dir.File("a"));
  EXPECT_EQ(HashOf(dir.File("another name")), hash);
  EXPECT_EQ(HashOf(dir.File("a") + "/"), hash);

  WriteAdapter(dir.File("b"), kConfig + " ", kWeights);
  EXPECT_NE(HashOf(dir.File("b")), hash);
  WriteAdapter(dir.File("c"), kConfig, kWeights + std::string(1, '\0'));
  EXPECT_NE(HashOf(dir.File("c")), hash);
  // One byte moves from one file to the other.
  WriteAdapter(dir.File("d"), kConfig + kWeights.substr(0, 1), kWeights.substr(1));
  EXPECT_NE(HashOf(dir.File("d")), hash);
  WriteAdapter(dir.File("e"), kWeights, kConfig);
  EXPECT_NE(HashOf(dir.File("e")), hash);
}

TEST(PeftFolderTest, MissingFilesAreNamed) {
  const TempDir dir;
  EXPECT_THAT(HashOf(dir.File("nowhere")),
              AllOf(HasSubstr("NOT_FOUND"), HasSubstr("nowhere/adapter_config.json")));
  WriteFile(dir.File("adapter_config.json"), kConfig);
  EXPECT_THAT(HashOf(dir.path()),
              AllOf(HasSubstr("NOT_FOUND"), HasSubstr("adapter_model.safetensors")));
}

// The same adapter by PEFT with safe_serialization=False: one content, whichever file is there.
TEST(PeftFolderTest, TorchsFileIsThePeftFileOfTheSameTensors) {
  const std::string bin = SourcePath("tests/goldens/forms/llama-bin");
  const std::string peft = SourcePath("tests/goldens/llama/adapter");
  const PeftFolder read = *ReadPeftFolder(bin, kBytesMax);
  EXPECT_EQ(read.weights.view(), *ReadFile(peft + "/adapter_model.safetensors"));
  EXPECT_EQ(read.label, bin + "/adapter_model.bin");
  EXPECT_EQ(HashOf(bin), HashOf(peft));
  EXPECT_EQ(*HashOfFolder(bin), *HashOfFolder(peft));
  // A copy from another machine goes by PEFT's name.
  const TempDir dir;
  WriteAdapter(dir.path(), *ReadFile(bin + "/adapter_config.json"),
               *ReadFile(bin + "/adapter_model.bin"));
  EXPECT_EQ(*HashOfFolder(dir.path()), *HashOfFolder(peft));
}

TEST(PeftFolderTest, PicklesThatCannotBeReadAreRefusedWithTheWayOut) {
  const TempDir dir;
  WriteFile(dir.File("adapter_config.json"), kConfig);
  WriteFile(dir.File("adapter_model.bin"), "pickle");
  EXPECT_THAT(HashOf(dir.path()), AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr(dir.path()),
                                        HasSubstr("adapter_model.bin"), HasSubstr("torch.save")));
  WriteFile(dir.File("adapter_model.bin"),
            *ReadFile(SourcePath("tests/fuzz_corpus/torch_weights_fuzz/legacy")));
  EXPECT_THAT(HashOf(dir.path()), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("adapter_model.bin"),
                                        HasSubstr("safe_serialization=True")));
  // The .bin file beside a safetensors file is ignored, as in PEFT.
  WriteFile(dir.File("adapter_model.safetensors"), kWeights);
  EXPECT_EQ(HashOf(dir.path()), "6602e260dd495754593dba2542fb8fc9d949a7522f9e48c3e75e1e158f13befb");
}

std::string ContentHashOf(const std::string& path) {
  const Result<PeftContent> content = ReadAdapter(path, kBytesMax);
  return content.ok() ? ContentHash(*content) : content.status().ToString();
}

TEST(PeftFolderTest, WhatItSaysOfTextsIsPartOfItsContent) {
  const TempDir dir;
  WriteAdapter(dir.File("a"), kConfig, kWeights);
  const std::string bare = ContentHashOf(dir.File("a"));
  EXPECT_EQ(bare, HashOf(dir.File("a")));
  std::set<std::string> hashes = {bare};
  for (const char* file : {"chat_template.jinja", "generation_config.json"}) {
    WriteFile(dir.File("a") + "/" + file, "x");
    EXPECT_TRUE(hashes.insert(ContentHashOf(dir.File("a"))).second) << file;
    WriteFile(dir.File("a") + "/" + file, "y");
    EXPECT_TRUE(hashes.insert(ContentHashOf(dir.File("a"))).second) << file;
    std::filesystem::remove(dir.File("a") + "/" + file);
  }
  // What is compared with the base's, and what says nothing, is none.
  for (const char* file :
       {"tokenizer.json", "tokenizer.model", "README.md", "trainer_state.json"}) {
    WriteFile(dir.File("a") + "/" + file, "x");
  }
  EXPECT_EQ(ContentHashOf(dir.File("a")), bare);
}

TEST(PeftFolderTest, OtherToolsWeightsAreRefusedWithWhatToDo) {
  const TempDir dir;
  WriteFile(dir.File("adapter_config.json"), kConfig);
  WriteFile(dir.File("adapters.npz"), kWeights);
  EXPECT_THAT(HashOf(dir.path()), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr("adapters.npz"),
                                        HasSubstr("mlx-lm"), HasSubstr("adapters.safetensors")));
  std::filesystem::remove(dir.File("adapters.npz"));
  WriteFile(dir.File("adapter_model.safetensors.index.json"), "{}");
  EXPECT_THAT(HashOf(dir.path()), HasSubstr("max_shard_size"));
  WriteFile(dir.File("adapter_model.safetensors"), kWeights);
  EXPECT_THAT(HashOf(dir.path()), Not(HasSubstr("max_shard_size")));
  for (const char* file :
       {"new_embeddings.safetensors", "new_embeddings.bin", "non_lora_trainables.bin"}) {
    WriteFile(dir.File(file), "x");
    EXPECT_THAT(HashOf(dir.path()), AllOf(HasSubstr("UNIMPLEMENTED"), HasSubstr(file)));
    std::filesystem::remove(dir.File(file));
  }
}

TEST(PeftFolderTest, FoldersOneLevelDeeperAreNamed) {
  const TempDir dir;
  for (int i = 0; i < 7; ++i) {
    WriteAdapter(dir.File("x") + "/checkpoint-" + std::to_string(i), kConfig, kWeights);
  }
  EXPECT_THAT(
      HashOf(dir.File("x")),
      AllOf(HasSubstr("NOT_FOUND"), HasSubstr("checkpoint-0, checkpoint-1"), HasSubstr("2 more")));
}

TEST(PeftFolderTest, AHugeConfigIsRefused) {
  const TempDir dir;
  WriteAdapter(dir.path(), std::string(kPeftConfigBytesMax + 1, ' '), kWeights);
  EXPECT_THAT(HashOf(dir.path()),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("adapter_config.json")));
}

// A sparse file, as a folder may hold by mistake. No memory has room for it.
TEST(PeftFolderTest, HugeWeightsAreRefusedUnread) {
  const TempDir dir;
  WriteAdapter(dir.path(), kConfig, kWeights);
  std::filesystem::resize_file(dir.File("adapter_model.safetensors"), uintmax_t{1} << 36);
  EXPECT_THAT(HashOf(dir.path()),
              AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("adapter_model.safetensors")));
}

TEST(PeftFolderTest, WhatAModelsAdaptersMayHave) {
  ModelConfig model;
  model.hidden_size = 4096;
  model.intermediate_size = 11008;
  model.num_layers = 32;
  model.num_heads = 32;
  model.num_kv_heads = 32;
  model.head_dim = 128;
  model.vocab_size = 32000;
  const int64_t every_module = int64_t{32} * (4 * 8192 + 3 * 15104) * 256 * 4;
  const int64_t bytes = AdapterWeightsBytesMax(model);
  EXPECT_GT(bytes, every_module);
  EXPECT_LT(bytes, every_module + (int64_t{2} << 30));
}

// Opening a pipe would wait until something writes to it.
TEST(PeftFolderTest, PipesAreRefused) {
  const TempDir dir;
  ASSERT_EQ(mkfifo(dir.File("adapter_config.json").c_str(), 0600), 0);
  EXPECT_THAT(HashOf(dir.path()), AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("pipe")));
}

}  // namespace
}  // namespace graft
