#include "learn/learned_folder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "adapters/peft_folder.h"
#include "base/json.h"
#include "learn/test_model.h"
#include "model/kv_pool.h"

namespace graft {
namespace learned_folder_test {

using testing::LearnModel;
using testing::ReadLora;
using testing::SourcePath;

// What is read back has the very bits that training multiplied with.
TEST(LearnedFolderTest, IsReadBackAsItWasTrained) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    LearnModel model(SourcePath("tests/goldens/llama"), dtype);
    TrainedLora lora(model.config, 4, 0.5f, dtype);
    lora.Initialize(3);
    for (size_t i = 0; i < lora.parameters().size(); ++i) {
      lora.parameters()[i] += 1e-3f * static_cast<float>(i % 17);
    }
    lora.Refresh();
    const testing::TempDir dir;
    const std::string path = dir.File("mine");
    std::filesystem::create_directories(path);
    testing::WriteFile(path + "/stale.txt", "x");
    const Result<std::string> hash =
        WriteLearnedFolder(path, model.config, {.lora = &lora}, dtype, "org/base", {{"seed", 3}});
    ASSERT_TRUE(hash.ok()) << hash.status().ToString();
    EXPECT_FALSE(std::filesystem::exists(path + "/stale.txt"));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);

    const LoraWeights read = ReadLora(path, model.config, dtype);
    ASSERT_EQ(std::ssize(read.matrices()), lora.shape().num_lora_matrices());
    const void* const* made = lora.row_pointers();
    for (int32_t layer = 0; layer < model.config.num_layers; ++layer) {
      for (const LoraModule module : kAllLoraModules) {
        const auto i = static_cast<size_t>(layer) * kLoraModules + static_cast<size_t>(module);
        EXPECT_EQ(read.matrices()[i].rank, 4);
        EXPECT_EQ(read.matrices()[i].scale, 0.5f);
        for (const LoraSide side : {LoraSide::kA, LoraSide::kB}) {
          const bool is_a = side == LoraSide::kA;
          const auto* const* got = is_a ? read.matrices()[i].a_rows : read.matrices()[i].b_rows;
          const int64_t n = lora.place(layer, module, side).n;
          for (int row = 0; row < 4; ++row, ++made) {
            EXPECT_EQ(std::memcmp(got[row], *made, static_cast<size_t>(n * DTypeBytes(dtype))), 0);
          }
        }
      }
    }
    const Json json = *ParseJsonFile(path + "/graft.json");
    EXPECT_EQ(json["hash"], *hash);
    EXPECT_EQ(json["hash"], AdapterHash(*ReadPeftFolder(path, 1 << 30)));
    EXPECT_EQ(json["seed"], 3);
    EXPECT_EQ(json["format"], kGraftJsonFormat);
    EXPECT_EQ((*ParseJsonFile(path + "/adapter_config.json"))["base_model_name_or_path"],
              "org/base");
  }
}

// A family's own names, stacked projections (with rows head by head, too) and HF's Conv1D: what is
// read back is what was trained, and target_modules names no module twice.
TEST(LearnedFolderTest, IsReadBackAsEachFamilyStoresIt) {
  for (const char* const name : {"phi3-longrope", "glm4", "gpt2", "gpt-neox", "phi"}) {
    SCOPED_TRACE(name);
    LearnModel model(SourcePath(std::string("tests/goldens/") + name), DType::kF32);
    TrainedLora lora(model.config, 3, 0.5f, DType::kF32);
    lora.Initialize(3);
    for (size_t i = 0; i < lora.parameters().size(); ++i) {
      lora.parameters()[i] += 1e-3f * static_cast<float>(i % 1017);
    }
    lora.Refresh();
    const testing::TempDir dir;
    const std::string path = dir.File("mine");
    const Result<std::string> hash =
        WriteLearnedFolder(path, model.config, {.lora = &lora}, DType::kF32, "", {{"seed", 3}});
    ASSERT_TRUE(hash.ok()) << hash.status().ToString();
    TrainedLora again(model.config, 3, 0.5f, DType::kF32);
    const Status read = again.Read(ReadLora(path, model.config, DType::kF32));
    ASSERT_TRUE(read.ok()) << read.ToString();
    EXPECT_TRUE(std::ranges::equal(again.parameters(), lora.parameters()));
    const Json json = *ParseJsonFile(path + "/adapter_config.json");
    EXPECT_EQ(json["fan_in_fan_out"], std::string(name) == "gpt2");
    const auto modules = json["target_modules"].get<std::vector<std::string>>();
    EXPECT_EQ(std::set(modules.begin(), modules.end()).size(), modules.size());
  }
}

// Virtual tokens, alone and with LoRA, under one hash.
TEST(LearnedFolderTest, ABundleIsReadBackAsItWasTrained) {
  for (const VirtualTokenKind kind :
       {VirtualTokenKind::kEmbedding, VirtualTokenKind::kKeysValues}) {
    for (const bool with_lora : {false, true}) {
      LearnModel model(SourcePath("tests/goldens/llama"), DType::kBF16);
      TrainedPrompt prompt(model.config, kind, 3, DType::kBF16);
      for (size_t i = 0; i < prompt.parameters().size(); ++i) {
        prompt.parameters()[i] = 1.0f + 1e-3f * static_cast<float>(i % 17);
      }
      prompt.Refresh();
      TrainedLora lora(model.config, 2, 1.0f, DType::kBF16);
      const testing::TempDir dir;
      const std::string path = dir.File("mine");
      const std::string hash =
          *WriteLearnedFolder(path, model.config, {with_lora ? &lora : nullptr, &prompt},
                              DType::kBF16, "org/base", {{"seed", 3}});
      const PeftContent content = *ReadAdapter(path, 1 << 30);
      EXPECT_TRUE(content.is_bundle);
      EXPECT_EQ(content.folders[0].path.empty(), !with_lora);
      EXPECT_EQ(ContentHash(content), hash);
      EXPECT_EQ((*ParseJsonFile(path + "/graft.json"))["hash"], hash);
      const PromptConfig config = *ParsePromptConfig(content.folders[1].config, model.config);
      EXPECT_EQ(config.kind, kind);
      const VirtualTokens read =
          *VirtualTokens::Load(*SafetensorsFile::FromBytes(content.folders[1].weights, "prompt"),
                               config, model.config, TypesOf(DType::kBF16));
      ASSERT_EQ(read.num_tokens(), 3);
      const auto layer_bytes =
          static_cast<size_t>(prompt.layer_columns() * DTypeBytes(prompt.dtype()));
      for (int32_t token = 0; token < 3; ++token) {
        const char* row = read.buffer().as<char>() + token * read.row_bytes();
        const int32_t layers = kind == VirtualTokenKind::kEmbedding ? 1 : model.config.num_layers;
        for (int32_t layer = 0; layer < layers; ++layer, row += layer_bytes) {
          EXPECT_EQ(std::memcmp(row, prompt.row_pointers()[layer * 3 + token], layer_bytes), 0);
        }
      }
    }
  }
}

TEST(LearnedFolderTest, SaysWhereItCannotWrite) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  TrainedLora lora(model.config, 1, 1.0f, DType::kF32);
  const testing::TempDir dir;
  testing::WriteFile(dir.File("file"), "x");
  const Status status =
      WriteLearnedFolder(dir.File("file/mine"), model.config, {.lora = &lora}, DType::kF32, "", {})
          .status();
  EXPECT_NE(status.message().find(".mine.new"), std::string::npos) << status.message();
}

}  // namespace learned_folder_test
}  // namespace graft
