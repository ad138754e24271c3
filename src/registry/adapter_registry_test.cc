#include "registry/adapter_registry.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace graft {
namespace {

namespace fs = std::filesystem;

RegistryEntry Entry(const std::string& name, const std::string& hash) {
  return {.name = name,
          .hash = hash,
          .path = "/a/" + name,
          .base_model = "base",
          .rank_max = 16,
          .bytes = int64_t{5} << 32,
          .tenant = "t",
          .loaded_at = 1700000000};
}

class AdapterRegistryTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("graft_registry_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    path_ = folder_ / "registry.db";
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path folder_;
  fs::path path_;
};

TEST_F(AdapterRegistryTest, KeepsReplacesAndRemoves) {
  auto registry = *AdapterRegistry::Open(":memory:");
  const RegistryEntry quoted = Entry("it's; DROP TABLE adapter; --", "h1");
  EXPECT_TRUE(registry->Upsert(quoted).ok());
  EXPECT_TRUE(registry->Upsert(Entry("a", "h2")).ok());
  EXPECT_TRUE(registry->Upsert(Entry("a", "h3")).ok());
  EXPECT_EQ(*registry->List(), (std::vector<RegistryEntry>{Entry("a", "h3"), quoted}));
  EXPECT_TRUE(registry->Remove(quoted.name).ok());
  EXPECT_EQ(registry->Remove(quoted.name).code(), StatusCode::kNotFound);
  EXPECT_EQ(registry->List()->size(), 1u);
}

TEST_F(AdapterRegistryTest, SurvivesAKilledProcess) {
  const pid_t child = fork();
  if (child == 0) {
    auto registry = AdapterRegistry::Open(path_);
    if (!registry.ok() || !(*registry)->Upsert(Entry("a", "h")).ok()) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int state = 0;
  waitpid(child, &state, 0);
  ASSERT_TRUE(WIFSIGNALED(state));
  EXPECT_EQ(*(*AdapterRegistry::Open(path_))->List(), std::vector<RegistryEntry>{Entry("a", "h")});
}

TEST_F(AdapterRegistryTest, RemembersFoldersBesideNames) {
  const RegistryFolder first = {"/a/x", "10:20", "h1", "base", 8, int64_t{5} << 32};
  const RegistryFolder second = {"/a/y", "1:2", "h2", "", 64, 7};
  {
    auto registry = *AdapterRegistry::Open(path_);
    EXPECT_TRUE(registry->RememberFolder({"/a/x", "old", "h0", "", 1, 1}).ok());
    EXPECT_TRUE(registry->RememberFolder(second).ok());
    EXPECT_TRUE(registry->RememberFolder(first).ok());
  }
  auto registry = *AdapterRegistry::Open(path_);
  EXPECT_EQ(*registry->ListFolders(), (std::vector<RegistryFolder>{first, second}));
  EXPECT_TRUE(registry->List()->empty());
  EXPECT_TRUE(registry->ForgetFolders({"/a/x", "/a/z", "/a/'"}).ok());
  EXPECT_EQ(*registry->ListFolders(), std::vector<RegistryFolder>{second});
}

TEST_F(AdapterRegistryTest, SaysWhatToDoAboutABrokenFile) {
  std::ofstream(path_) << std::string(8192, 'x');
  const Status broken = AdapterRegistry::Open(path_).status();
  EXPECT_EQ(broken.code(), StatusCode::kDataLoss);
  EXPECT_NE(broken.message().find("move the file away"), std::string::npos);
  EXPECT_EQ(AdapterRegistry::Open(folder_ / "no" / "where.db").status().code(),
            StatusCode::kNotFound);
}

TEST_F(AdapterRegistryTest, TwoProcessesTakeTurns) {
  auto first = *AdapterRegistry::Open(path_);
  auto second = *AdapterRegistry::Open(path_);
  const auto write = [](AdapterRegistry& registry, const std::string& prefix) {
    for (int i = 0; i < 25; ++i) {
      EXPECT_TRUE(registry.Upsert(Entry(prefix + std::to_string(i), "h")).ok());
    }
  };
  std::thread thread([&] { write(*first, "a"); });
  write(*second, "b");
  thread.join();
  EXPECT_EQ(first->List()->size(), 50u);
}

}  // namespace
}  // namespace graft
