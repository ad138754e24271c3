#include "learn/lora_folder.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "learn/test_model.h"
#include "model/adapter_folder.h"

namespace graft {
namespace lora_folder_test {

using testing::LearnModel;
using testing::ReadLora;
using testing::SourcePath;

// What is read back has the very bits that training multiplied with.
TEST(LoraFolderTest, IsReadBackAsItWasTrained) {
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
        WriteLoraFolder(path, model.config, lora, dtype, "org/base", {{"seed", 3}});
    ASSERT_TRUE(hash.ok()) << hash.status().ToString();
    EXPECT_FALSE(std::filesystem::exists(path + "/stale.txt"));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);

    const LoraWeights read = ReadLora(path, model.config, dtype);
    ASSERT_EQ(read.matrices().size(), lora.matrices().size());
    for (int32_t layer = 0; layer < model.config.num_layers; ++layer) {
      for (const LoraModule module : kAllLoraModules) {
        const auto i = static_cast<size_t>(layer) * kLoraModules + static_cast<size_t>(module);
        EXPECT_EQ(read.matrices()[i].rank, 4);
        EXPECT_EQ(read.matrices()[i].scale, 0.5f);
        for (const LoraSide side : {LoraSide::kA, LoraSide::kB}) {
          const bool is_a = side == LoraSide::kA;
          const auto* const* got = is_a ? read.matrices()[i].a_rows : read.matrices()[i].b_rows;
          const auto* const* made = is_a ? lora.matrices()[i].a_rows : lora.matrices()[i].b_rows;
          const int64_t n = lora.place(layer, module, side).n;
          for (int row = 0; row < 4; ++row) {
            EXPECT_EQ(std::memcmp(got[row], made[row], static_cast<size_t>(n * DTypeBytes(dtype))),
                      0);
          }
        }
      }
    }
    const Json json = *ParseJsonFile(path + "/graft.json");
    EXPECT_EQ(json["hash"], *hash);
    EXPECT_EQ(json["hash"], AdapterHash(*ReadAdapterFolder(path, 1 << 30)));
    EXPECT_EQ(json["seed"], 3);
    EXPECT_EQ(json["format"], kGraftJsonFormat);
    EXPECT_EQ((*ParseJsonFile(path + "/adapter_config.json"))["base_model_name_or_path"],
              "org/base");
  }
}

TEST(LoraFolderTest, SaysWhereItCannotWrite) {
  LearnModel model(SourcePath("tests/goldens/llama"), DType::kF32);
  TrainedLora lora(model.config, 1, 1.0f, DType::kF32);
  const testing::TempDir dir;
  testing::WriteFile(dir.File("file"), "x");
  const Status status =
      WriteLoraFolder(dir.File("file/mine"), model.config, lora, DType::kF32, "", {}).status();
  EXPECT_NE(status.message().find(".mine.new"), std::string::npos) << status.message();
}

}  // namespace lora_folder_test
}  // namespace graft
