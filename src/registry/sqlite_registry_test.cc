#include "registry/sqlite_registry.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "registry/adapter_registry_testing.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

using registry_suite::Entry;

class SqliteRegistryTest : public testing::Test {
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

TEST_F(SqliteRegistryTest, SurvivesAKilledProcess) {
  const pid_t child = fork();
  if (child == 0) {
    auto registry = SqliteRegistry::Open(path_);
    if (!registry.ok() || !(*registry)->Put(Entry("a", "h"), true).ok()) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int state = 0;
  waitpid(child, &state, 0);
  ASSERT_TRUE(WIFSIGNALED(state));
  EXPECT_EQ(*(*SqliteRegistry::Open(path_))->List(), std::vector<AdapterInfo>{Entry("a", "h")});
}

TEST_F(SqliteRegistryTest, RemembersFoldersBesideNames) {
  const RegistryFolder first = {"/a/x", "10:20", "h1", "base", 8, int64_t{5} << 32};
  RegistryFolder second = {"/a/y", "1:2", "h2", "", 64, 7, 20, true, "its 'head'"};
  {
    auto registry = *SqliteRegistry::Open(path_);
    EXPECT_TRUE(registry->RememberFolder({"/a/x", "old", "h0", "", 1, 1}).ok());
    EXPECT_TRUE(registry->RememberFolder(second).ok());
    EXPECT_TRUE(registry->RememberFolder(first).ok());
  }
  auto registry = *SqliteRegistry::Open(path_);
  EXPECT_EQ(*registry->ListFolders(), (std::vector<RegistryFolder>{first, second}));
  EXPECT_TRUE(registry->List()->empty());
  EXPECT_TRUE(registry->ForgetFolders({"/a/x", "/a/z", "/a/'"}).ok());
  EXPECT_EQ(*registry->ListFolders(), std::vector<RegistryFolder>{second});
  second.left_out = "";  // by a server of other options
  EXPECT_TRUE(registry->RememberFolder(second).ok());
  EXPECT_EQ(*registry->ListFolders(), std::vector<RegistryFolder>{second});
}

// Virtual tokens are the content's, whatever its names; a file of before has no table of them.
TEST_F(SqliteRegistryTest, RemembersVirtualTokensByContent) {
  AdapterInfo entry = Entry("a", "h");
  entry.num_virtual_tokens = 20;
  ASSERT_TRUE((*SqliteRegistry::Open(path_))->Put(entry, true).ok());
  EXPECT_EQ(*(*SqliteRegistry::Open(path_))->List(), std::vector<AdapterInfo>{entry});
  sqlite3* file = nullptr;
  ASSERT_EQ(sqlite3_open(path_.c_str(), &file), SQLITE_OK);
  ASSERT_EQ(
      sqlite3_exec(file, "DROP TABLE prompt; PRAGMA user_version = 2", nullptr, nullptr, nullptr),
      SQLITE_OK);
  sqlite3_close(file);
  entry.num_virtual_tokens = 0;
  EXPECT_EQ(*(*SqliteRegistry::Open(path_))->List(), std::vector<AdapterInfo>{entry});
}

TEST_F(SqliteRegistryTest, SaysWhatToDoAboutABrokenFile) {
  std::ofstream(path_) << std::string(8192, 'x');
  const Status broken = SqliteRegistry::Open(path_).status();
  EXPECT_EQ(broken.code(), StatusCode::kDataLoss);
  EXPECT_NE(broken.message().find("move the file away"), std::string::npos);
  EXPECT_EQ(SqliteRegistry::Open(folder_ / "no" / "where.db").status().code(),
            StatusCode::kNotFound);
}

// A disk without room. It runs in a process of its own, because the limit is the process's.
TEST_F(SqliteRegistryTest, ADiskThatCannotBeWrittenIsReadAndRemembersNothing) {
  ASSERT_TRUE((*SqliteRegistry::Open(path_))->Put(Entry("a", "h"), true).ok());
  const std::string fresh = folder_ / "fresh.db";
  const auto use = [](const std::string& path, size_t num_known) {
    const auto registry = SqliteRegistry::Open(path);
    if (!registry.ok() || (*registry)->unwritable().ok()) return false;
    const std::string& why = (*registry)->unwritable().message();
    return why.find(path) != std::string::npos && (*registry)->List()->size() == num_known &&
           (*registry)->Put(Entry("b", "h"), true).ok() &&
           (*registry)->List()->size() == num_known + 1;
  };
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_FSIZE, &none) != 0) _exit(3);
    _exit(use(path_, 1) ? (use(fresh, 0) ? 0 : 2) : 1);
  }
  int state = 0;
  waitpid(child, &state, 0);
  EXPECT_TRUE(WIFEXITED(state));
  EXPECT_EQ(WEXITSTATUS(state), 0);
  const auto later = SqliteRegistry::Open(path_);
  EXPECT_TRUE((*later)->unwritable().ok());
  EXPECT_EQ(*(*later)->List(), std::vector<AdapterInfo>{Entry("a", "h")});
}

// Clients are told why a load was not remembered, but not where the file is.
TEST_F(SqliteRegistryTest, AFullDiskLaterOnPassesAndNamesNoPath) {
  const pid_t child = fork();
  if (child == 0) {
    auto registry = SqliteRegistry::Open(path_);
    if (!registry.ok()) _exit(1);
    signal(SIGXFSZ, SIG_IGN);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
    const Status status = (*registry)->Put(Entry("a", "h"), true);
    if (status.code() != StatusCode::kUnavailable) _exit(2);
    _exit(status.message().find("registry.db") == std::string::npos ? 0 : 3);
  }
  int state = 0;
  waitpid(child, &state, 0);
  EXPECT_TRUE(WIFEXITED(state));
  EXPECT_EQ(WEXITSTATUS(state), 0);
}

TEST_F(SqliteRegistryTest, AMetricTellsWhetherItRemembers) {
  Metrics metrics;
  ASSERT_TRUE(OpenRegistry("", metrics).ok());
  EXPECT_NE(metrics.Render().find("graft_registry_remembers 0"), std::string::npos);
  ASSERT_TRUE(OpenRegistry(path_, metrics).ok());
  EXPECT_NE(metrics.Render().find("graft_registry_remembers 1"), std::string::npos);
}

TEST_F(SqliteRegistryTest, TwoProcessesTakeTurns) {
  auto first = *SqliteRegistry::Open(path_);
  auto second = *SqliteRegistry::Open(path_);
  const auto write = [](SqliteRegistry& registry, const std::string& prefix) {
    for (int i = 0; i < 25; ++i) {
      EXPECT_TRUE(registry.Put(Entry(prefix + std::to_string(i), "h"), true).ok());
    }
  };
  std::thread thread([&] { write(*first, "a"); });
  write(*second, "b");
  thread.join();
  EXPECT_EQ(first->List()->size(), 50u);
}

INSTANTIATE_TEST_SUITE_P(Sqlite, AdapterRegistrySuite, testing::Values([] {
                           return std::unique_ptr<AdapterRegistry>(
                               *SqliteRegistry::Open(":memory:"));
                         }));

}  // namespace
}  // namespace graft
