#include "model/safetensors_writer.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/new_file.h"
#include "model/model_test_util.h"
#include "model/safetensors.h"

namespace graft {
namespace {

TEST(SafetensorsWriterTest, IsReadBack) {
  const testing::TempDir dir;
  const std::string path = dir.File("x.safetensors");
  const std::vector<float> a = {1.0f, -2.5f, 3.0f, 4.0f, 5.0f, 6.0f};
  const std::vector<uint16_t> b = {0x3F80, 0xC000};
  const SafetensorsOut tensors[] = {{"b", {b.data(), DType::kBF16, {2}}},
                                    {"a", {a.data(), DType::kF32, {2, 3}}},
                                    {"none", {nullptr, DType::kF16, {0}}}};
  ASSERT_TRUE(WriteSafetensors(path, tensors, {{"format", "pt"}}).ok());
  const SafetensorsFile file = *SafetensorsFile::Open(path);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.Tensor("a")->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::string(file.Bytes("a")->begin(), file.Bytes("a")->end()), testing::BytesOf(a));
  EXPECT_EQ(file.Tensor("b")->dtype, DType::kBF16);
  EXPECT_EQ(std::string(file.Bytes("b")->begin(), file.Bytes("b")->end()), testing::BytesOf(b));
  EXPECT_EQ(file.entries().size(), 3u);
  EXPECT_FALSE(FileExists(path + ".new"));
}

TEST(SafetensorsWriterTest, AFailureLeavesWhatWasThere) {
  const testing::TempDir dir;
  const std::string path = dir.File("folder");
  std::filesystem::create_directories(path + "/x");
  const Status status = WriteWholeFile(path, "text");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(path), std::string::npos) << status.message();
  EXPECT_TRUE(FileExists(path + "/x") || std::filesystem::exists(path + "/x"));
  EXPECT_FALSE(std::filesystem::exists(path + ".new"));
  EXPECT_FALSE(WriteWholeFile(dir.File("none/file"), "text").ok());
}

}  // namespace
}  // namespace graft
