#include "model/model_folder.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "model/model_test_util.h"

namespace graft {
namespace {

namespace fs = std::filesystem;
using testing::TempDir;
using testing::WriteFile;

TEST(ModelFolderTest, ARepositoryOfTheCacheIsItsMainRevision) {
  const TempDir dir;
  const std::string repository = dir.File("models--demo--base--x");
  fs::create_directories(repository + "/snapshots/abc");
  fs::create_directories(repository + "/snapshots/old");
  fs::create_directories(repository + "/refs");
  const Status status = ResolveModelFolder(repository).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("abc"), std::string::npos) << status.message();
  for (const char* bad : {"gone", "..", ""}) {
    WriteFile(repository + "/refs/main", bad);
    EXPECT_EQ(ResolveModelFolder(repository).status().code(), StatusCode::kNotFound) << bad;
  }
  WriteFile(repository + "/refs/main", "abc\n");
  const std::string resolved = *ResolveModelFolder(repository);
  EXPECT_EQ(resolved, repository + "/snapshots/abc");
  EXPECT_EQ(ModelNameOf(resolved), "demo/base--x");
  EXPECT_EQ(ModelNameOf(resolved + "/"), "demo/base--x");
}

TEST(ModelFolderTest, AnyOtherFolderIsItself) {
  const TempDir dir;
  const std::string model = dir.File("model");
  fs::create_directories(model + "/snapshots");
  WriteFile(model + "/config.json", "{}");
  EXPECT_EQ(*ResolveModelFolder(model), model);
  EXPECT_EQ(*ResolveModelFolder(dir.File("nowhere")), dir.File("nowhere"));
  EXPECT_EQ(ModelNameOf(model), "model");
  EXPECT_EQ(ModelNameOf(model + "/."), "model");
  EXPECT_EQ(ModelNameOf(dir.File("snapshots/rev")), "rev");
}

}  // namespace
}  // namespace graft
