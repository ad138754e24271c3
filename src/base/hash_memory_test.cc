#include "base/hash_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/file_lock.h"
#include "base/new_file.h"
#include "base/sha256.h"

namespace graft {
namespace {

using ::testing::Optional;

class HashMemoryTest : public ::testing::Test {
 protected:
  HashMemoryTest() {
    std::string name = ::testing::TempDir() + "hash_memory_XXXXXX";
    folder_ = mkdtemp(name.data());
    options_.path = folder_ + "/graft/hashes";
  }
  ~HashMemoryTest() override { std::filesystem::remove_all(folder_); }

  static std::string Hash(const std::string& of) { return Sha256Of(of); }
  std::string Text() const { return *ReadFile(options_.path); }

  std::string folder_;
  HashMemoryOptions options_;
};

TEST_F(HashMemoryTest, RemembersAcrossPrograms) {
  {
    HashMemory memory(options_);
    EXPECT_EQ(memory.Find("a"), std::nullopt);
    memory.Remember("a", Hash("1"));
    memory.Remember("b", Hash("2"));
    memory.Remember("a", Hash("3"));
    EXPECT_EQ(memory.num_entries(), 2);
    EXPECT_THAT(memory.Find("a"), Optional(Hash("3")));
  }
  struct stat status {};
  ASSERT_EQ(stat(options_.path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  HashMemory memory(options_);
  EXPECT_EQ(memory.num_entries(), 2);
  EXPECT_THAT(memory.Find("a"), Optional(Hash("3")));
  EXPECT_THAT(memory.Find("b"), Optional(Hash("2")));
  EXPECT_EQ(memory.Find("c"), std::nullopt);
}

TEST_F(HashMemoryTest, TheBoundDropsWhatWasUnusedForLongest) {
  options_.entries_max = 3;
  {
    HashMemory memory(options_);
    for (const char* key : {"a", "b", "c"}) memory.Remember(key, Hash(key));
    EXPECT_TRUE(memory.Find("a").has_value());
    memory.Remember("d", Hash("d"));
    EXPECT_FALSE(memory.Find("b").has_value());
  }
  {
    HashMemory memory(options_);  // the order outlives the program
    memory.Remember("e", Hash("e"));
    EXPECT_FALSE(memory.Find("c").has_value());
    EXPECT_TRUE(memory.Find("a").has_value());
    EXPECT_TRUE(memory.Find("d").has_value());
  }
  // A file of more than may be kept is none of this program's.
  options_.entries_max = 2;
  EXPECT_EQ(HashMemory(options_).num_entries(), 0);
}

TEST_F(HashMemoryTest, WhatAnotherProgramWroteMeanwhileIsKept) {
  HashMemory first(options_);
  HashMemory second(options_);
  first.Remember("a", Hash("a"));
  ASSERT_TRUE(first.Write().ok());
  second.Remember("b", Hash("b"));
  ASSERT_TRUE(second.Write().ok());
  HashMemory third(options_);
  EXPECT_THAT(third.Find("a"), Optional(Hash("a")));
  EXPECT_THAT(third.Find("b"), Optional(Hash("b")));
}

// Reading, adding and writing are one step among programs.
TEST_F(HashMemoryTest, ProgramsThatWriteAtOnceLoseNothing) {
  constexpr int kPrograms = 4;
  constexpr int kRounds = 10;
  options_.lock_wait_ns = INT64_MAX;
  std::vector<std::thread> programs;
  for (int program = 0; program < kPrograms; ++program) {
    programs.emplace_back([this, program] {
      for (int round = 0; round < kRounds; ++round) {
        HashMemory memory(options_);
        const std::string key = std::to_string(program) + " " + std::to_string(round);
        memory.Remember(key, Hash(key));
        ASSERT_TRUE(memory.Write().ok());
      }
    });
  }
  for (std::thread& program : programs) program.join();
  EXPECT_EQ(HashMemory(options_).num_entries(), kPrograms * kRounds);
}

TEST_F(HashMemoryTest, WhatAnotherProgramHasLockedIsWrittenLater) {
  options_.lock_wait_ns = 0;
  options_.write_after_ns = int64_t{3600} * 1'000'000'000;
  HashMemory memory(options_);
  memory.Remember("a", Hash("a"));
  ASSERT_TRUE(memory.Write().ok());
  const std::string before = Text();
  memory.Remember("b", Hash("b"));
  {
    const Result<FileLock> lock = FileLock::Take(options_.path + ".lock", 0);
    ASSERT_TRUE(lock.ok());
    EXPECT_EQ(FileLock::Take(options_.path + ".lock", 0).status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(memory.Write().code(), StatusCode::kUnavailable);
    EXPECT_EQ(Text(), before);
    EXPECT_THAT(memory.Find("b"), Optional(Hash("b")));
  }
  ASSERT_TRUE(memory.Write().ok());
  EXPECT_EQ(HashMemory(options_).num_entries(), 2);
}

TEST_F(HashMemoryTest, ALockFollowsNoLink) {
  std::filesystem::create_directory(folder_ + "/graft");
  std::filesystem::create_symlink(folder_ + "/elsewhere", options_.path + ".lock");
  HashMemory memory(options_);
  memory.Remember("a", Hash("a"));
  EXPECT_FALSE(memory.Write().ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/elsewhere"));
}

// A failure that lasts is not met again and again: here the end of the memory would.
TEST_F(HashMemoryTest, WhatFailsForGoodIsTriedAgainWhenThereIsMore) {
  const std::string lock = options_.path + ".lock";
  options_.write_after_ns = int64_t{3600} * 1'000'000'000;
  std::filesystem::create_directories(lock);
  {
    HashMemory memory(options_);
    memory.Remember("a", Hash("a"));
    EXPECT_EQ(memory.Write().code(), StatusCode::kInvalidArgument) << "a folder";
    std::filesystem::remove(lock);
  }
  EXPECT_FALSE(std::filesystem::exists(options_.path));
  std::filesystem::create_directory(lock);
  {
    HashMemory memory(options_);
    memory.Remember("a", Hash("a"));
    EXPECT_FALSE(memory.Write().ok());
    std::filesystem::remove(lock);
    memory.Remember("b", Hash("b"));
  }
  EXPECT_EQ(HashMemory(options_).num_entries(), 2);
}

// A full disk, say: here a limit on files' sizes.
TEST_F(HashMemoryTest, WhatFailsForAWhileIsTriedAgain) {
  options_.write_after_ns = int64_t{3600} * 1'000'000'000;
  {
    HashMemory memory(options_);
    memory.Remember("a", Hash("a"));
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto of_signal = signal(SIGXFSZ, SIG_IGN);
    const rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    const Status written = memory.Write();
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, of_signal);
    EXPECT_EQ(written.code(), StatusCode::kUnavailable) << written.ToString();
  }
  EXPECT_EQ(HashMemory(options_).num_entries(), 1);
}

// As programs write it where the file system has no locks.
TEST_F(HashMemoryTest, NewFilesOfOtherEndingsDoNotMeet) {
  std::filesystem::create_directory(folder_ + "/graft");
  NewFile first(options_.path, 0600, ".1.new");
  NewFile second(options_.path, 0600, ".2.new");
  first.Write("first", 5);
  second.Write("2", 1);
  first.Write(" and last", 9);
  EXPECT_TRUE(second.Finish().ok());
  EXPECT_EQ(Text(), "2");
  EXPECT_TRUE(first.Finish().ok());
  EXPECT_EQ(Text(), "first and last");
  EXPECT_FALSE(std::filesystem::exists(options_.path + ".1.new"));
}

// Cut short, or changed anywhere, it is ignored as a whole, and written anew.
TEST_F(HashMemoryTest, ADamagedFileIsIgnored) {
  { HashMemory(options_).Remember("a", Hash("a")); }
  const std::string whole = Text();
  std::vector<std::string> damaged = {"", "x", whole.substr(0, whole.size() / 2), whole.substr(1),
                                      whole + "\n"};
  for (const size_t at : {size_t{0}, size_t{30}, whole.size() / 2, whole.size() - 2}) {
    damaged.push_back(whole);
    damaged.back()[at] = damaged.back()[at] == 'a' ? 'b' : 'a';
  }
  for (const std::string& text : damaged) {
    ASSERT_TRUE(WriteWholeFile(options_.path, text, 0600).ok());
    HashMemory memory(options_);
    EXPECT_EQ(memory.num_entries(), 0) << text;
    memory.Remember("a", Hash("a"));
    ASSERT_TRUE(memory.Write().ok());
    EXPECT_EQ(Text(), whole);
  }
}

TEST_F(HashMemoryTest, AFileThatOthersMayWriteIsIgnored) {
  { HashMemory(options_).Remember("a", Hash("a")); }
  EXPECT_EQ(HashMemory(options_).num_entries(), 1);
  std::filesystem::permissions(options_.path, std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_EQ(HashMemory(options_).num_entries(), 0);
}

TEST_F(HashMemoryTest, APlaceThatCannotBeWrittenCostsNothingElse) {
  options_.path = "/proc/nowhere/hashes";
  HashMemory memory(options_);
  memory.Remember("a", Hash("a"));
  EXPECT_FALSE(memory.Write().ok());
  EXPECT_TRUE(memory.Find("a").has_value());
}

TEST_F(HashMemoryTest, YoungFilesAreNotToBeRemembered) {
  constexpr int64_t kSecond = 1'000'000'000;
  const HashMemory memory(options_);
  const int64_t now = 1'000 * kSecond;
  const FileIdentity old = {.modified_ns = now - 3 * kSecond, .changed_ns = now - 3 * kSecond};
  EXPECT_TRUE(memory.MayRemember(old, now));
  FileIdentity young = old;
  young.modified_ns = now - 2 * kSecond;
  EXPECT_FALSE(memory.MayRemember(young, now));
  young = old;
  young.changed_ns = now - 1;
  EXPECT_FALSE(memory.MayRemember(young, now));
  young.changed_ns = now + 1'000 * kSecond;
  EXPECT_FALSE(memory.MayRemember(young, now)) << "its clock is ahead of ours";
}

TEST_F(HashMemoryTest, OpenedFilesTellWhenTheyWereWritten) {
  const std::string path = folder_ + "/file";
  std::ofstream(path) << "hello";
  const OpenedFile file = *FileJail().Open(path, 100);
  EXPECT_EQ(file.bytes(), 5);
  EXPECT_EQ(*file.Look(), file.identity());
  EXPECT_EQ(FileJail().Open(path, 100)->identity(), file.identity());
  std::filesystem::resize_file(path, 3);
  EXPECT_NE(*file.Look(), file.identity());
  char bytes[5];
  EXPECT_TRUE(file.ReadAt(1, 2, bytes).ok());
  EXPECT_EQ(std::string(bytes, 2), "el");
  EXPECT_EQ(file.ReadAt(0, 5, bytes).code(), StatusCode::kUnavailable);
  // Another file in its place is another one, whatever its times.
  std::filesystem::rename(path, path + ".old");
  std::ofstream(path) << "hel";
  EXPECT_NE(FileJail().Open(path, 100)->identity().inode, file.identity().inode);
}

TEST(CacheFilePathTest, FollowsTheEnvironment) {
  const auto with = [](const char* cache, const char* home) {
    cache == nullptr ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", cache, 1);
    home == nullptr ? unsetenv("HOME") : setenv("HOME", home, 1);
    return CacheFilePath("x");
  };
  EXPECT_EQ(with("/c", "/h"), "/c/graft/x");
  EXPECT_EQ(with("relative", "/h"), "/h/.cache/graft/x");
  EXPECT_EQ(with(nullptr, "/h"), "/h/.cache/graft/x");
  EXPECT_EQ(with(nullptr, nullptr), "");
}

}  // namespace
}  // namespace graft
