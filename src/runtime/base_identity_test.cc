#include "runtime/base_identity.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace graft {
namespace {

namespace fs = std::filesystem;

class BaseIdentityTest : public testing::Test {
 protected:
  BaseIdentityTest() {
    const fs::path demo = fs::path(std::getenv("GRAFT_SOURCE_DIR")) / "demo/base";
    folder_ = fs::temp_directory_path() / ("graft_base_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::copy(demo, folder_);
    demo_ = IdentifyBase(demo.string()).value();
  }
  ~BaseIdentityTest() override { fs::remove_all(folder_); }
  BaseIdentity Identify() const { return IdentifyBase(folder_.string()).value(); }

  fs::path folder_;
  BaseIdentity demo_;
};

TEST_F(BaseIdentityTest, ACopyIsTheSame) {
  EXPECT_EQ(Identify().text_hash, demo_.text_hash);
  EXPECT_EQ(Identify().weights_hash, demo_.weights_hash);
  EXPECT_EQ(demo_.weights_hash.size(), 64u);
}

TEST_F(BaseIdentityTest, OtherWeightsDiffer) {
  std::fstream file(folder_ / "model-00002-of-00002.safetensors",
                    std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x55');
  file.close();
  EXPECT_EQ(Identify().text_hash, demo_.text_hash);
  EXPECT_NE(Identify().weights_hash, demo_.weights_hash);
}

TEST_F(BaseIdentityTest, AnotherTokenizerDiffers) {
  std::ofstream(folder_ / "tokenizer.json", std::ios::app) << " ";
  EXPECT_NE(Identify().text_hash, demo_.text_hash);
  EXPECT_EQ(Identify().weights_hash, demo_.weights_hash);
}

TEST_F(BaseIdentityTest, AFrontendNeedsNoWeights) {
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.path().extension() == ".safetensors") fs::remove(entry.path());
  }
  EXPECT_EQ(Identify().text_hash, demo_.text_hash);
  EXPECT_EQ(Identify().weights_hash, "");
}

}  // namespace
}  // namespace graft
