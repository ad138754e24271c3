#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <set>
#include <thread>

#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "base/local_processes.h"
#include "base/metrics.h"
#include "base/milliseconds.h"
#include "base/nearest_names.h"
#include "base/new_file.h"
#include "base/out_of_memory.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/thread_name.h"
#include "base/thread_pool.h"
#include "base/unwanted_work.h"

namespace graft {
namespace {

TEST(MillisecondsTest, AreNanosecondsOfAnyNumber) {
  static_assert(MsToNs(int32_t{3'000'000}) == 3'000'000'000'000, "not in 32 bits");
  static_assert(MsToNs(int64_t{-2}) == -2'000'000);
  static_assert(MsToNs(0.25) == 250'000);
  EXPECT_EQ(NsToMs(1'500'000), 1.5);
  EXPECT_EQ(MsToNs(NsToMs(int64_t{1} << 40)), int64_t{1} << 40);
}

TEST(FreePortTest, IsGivenOnceAndBelowOutgoingConnections) {
  std::set<int> ports;
  for (int i = 0; i < 50; ++i) {
    const Result<int> port = FindFreePort();
    ASSERT_TRUE(port.ok()) << port.status().ToString();
    EXPECT_GE(*port, 10240);
    EXPECT_LT(*port, 32768);
    EXPECT_TRUE(ports.insert(*port).second) << *port;
  }
}

TEST(StatusTest, CarriesCodeMessageAndContext) {
  EXPECT_TRUE(OkStatus().ok());
  const Status status = NotFoundError("no adapter 'x'").WithContext("load");
  EXPECT_EQ(status.ToString(), "NOT_FOUND: load: no adapter 'x'");
  EXPECT_TRUE(OkStatus().WithContext("load").ok());
}

Result<int> Half(int n) {
  if (n % 2 != 0) return InvalidArgumentError("odd");
  return n / 2;
}

Result<int> Quarter(int n) {
  ASSIGN_OR_RETURN(const int half, Half(n));
  return Half(half);
}

TEST(ResultTest, MacrosPropagate) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
}

TEST(CheckDeathTest, AbortsWithTheHint) {
  EXPECT_DEATH(CHECK_EQ(1, 2) << "one is not two", "1 vs 2 one is not two");
  EXPECT_DEATH((void)Half(3).value(), "odd");
}

TEST(Sha256Test, MatchesTheStandardsVector) {
  Sha256 hash;
  hash.Update("a");
  hash.Update("bc");
  EXPECT_EQ(hash.HexDigest(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(JsonTest, LimitsDepthAndRefusesGarbage) {
  EXPECT_EQ((*ParseJson(R"({"a": [1, 2]})"))["a"][1], 2);
  EXPECT_TRUE(ParseJson(std::string(64, '[') + std::string(64, ']')).ok());
  EXPECT_FALSE(ParseJson(std::string(65, '[') + std::string(65, ']')).ok());
  EXPECT_FALSE(ParseJson(std::string(1000000, '[')).ok());
  EXPECT_FALSE(ParseJson("{\"a\": \"\xff\"}").ok());
  EXPECT_FALSE(ParseJson("{\"a\": }").ok());
  EXPECT_FALSE(ParseJson("").ok());
  // A parser that took the NUL for the end would see less than the checks of the whole text.
  const std::string_view after_nul("{\"a\":{}}\0\"b\"", 12);
  EXPECT_EQ(ParseJson(after_nul).status().message(),
            "not valid JSON: \"a NUL, byte 9 of the text\"");
  EXPECT_FALSE(ParseOrderedJson(after_nul).ok());
  EXPECT_EQ((*ParseJson(R"(["[[[\"[[[", "]"])", {.depth_max = 1}))[0], "[[[\"[[[")
      << "brackets of strings";
}

// If the time grew with the square of the length, each would take minutes.
TEST(JsonTest, LongArraysOfObjectsAreRead) {
  std::string text = "[";
  for (int i = 0; i < 300000; ++i) text += R"({"a":1},)";
  EXPECT_EQ(ParseJson(text + "{}]")->size(), 300001u);
}

TEST(JsonTest, ErrorsQuoteNoMoreThanIsRead) {
  const Status status = ParseJson("\"" + std::string(100000, 'x') + "\x01\"").status();
  EXPECT_NE(status.message().find("line 1, column 100002"), std::string::npos) << status.message();
  EXPECT_LT(status.message().size(), 400u);
}

TEST(JsonTest, DuplicateKeysAreFound) {
  EXPECT_EQ(FindDuplicateKey(R"({"a": 1, "b": {"a": 2}, "c": [{"a": 3}, {"a": 4}]})"),
            std::nullopt);
  EXPECT_EQ(FindDuplicateKey(R"({"a": 1, "b": [], "a": 1})"), "a");
  EXPECT_EQ(FindDuplicateKey(R"([{"x": {"n": {}, "m": "n", "n": 0}}])"), "n");
  EXPECT_EQ(FindDuplicateKey(R"({"ab": 1, "\u0061b": 2})"), "ab") << "spelt otherwise";
  EXPECT_EQ(FindDuplicateKey(R"({"a\"": "a", "a": "\"a\": ,{"})"), std::nullopt);
  EXPECT_EQ(FindDuplicateKey(R"("a")"), std::nullopt);
  EXPECT_EQ(FindDuplicateKey(R"({}"a")"), std::nullopt) << "no JSON, and no key of an object";
}

// A hundred thousand keys would take minutes if each was compared with all others.
TEST(JsonTest, ManyKeysAreLookedAtOnce) {
  std::string text = "{";
  for (int i = 0; i < 100000; ++i) text += "\"" + std::to_string(i) + "\":0,";
  EXPECT_EQ(FindDuplicateKey(text + R"("x":1})"), std::nullopt);
  EXPECT_EQ(FindDuplicateKey(text + R"("50000":1})"), "50000");
  const Result<OrderedJson> json = ParseOrderedJson(text + R"("50000":1})");
  ASSERT_TRUE(json.ok()) << json.status().ToString();
  EXPECT_EQ(json->size(), 100000u);
  const auto& [key, value] = json->get_ref<const OrderedJson::object_t&>().begin()[50000];
  EXPECT_EQ(key, "50000");
  EXPECT_EQ(value, 1);
}

TEST(JsonTest, OrderedTreesAreThoseOfTheLibrary) {
  for (const char* text :
       {R"({"b":1,"a":{"z":[1,-2,2.5,true,null,"x\n"],"y":{}},"c":[]})", "[]", "{}", "7", "\"s\"",
        R"([[],[{}],{"a":[{"b":{"c":1},"a":2}],"":""}])", R"({"a":1,"b":2,"a":[3]})"}) {
    const Result<OrderedJson> json = ParseOrderedJson(text);
    ASSERT_TRUE(json.ok()) << text << json.status().ToString();
    EXPECT_EQ(json->dump(), OrderedJson::parse(text).dump());
  }
  for (const char* text :
       {"", "{", "[1,]", R"({"a"})", R"({"a":1}x)", "{\"a\":\"\xff\"}", "1e999"}) {
    EXPECT_EQ(ParseOrderedJson(text).status().message(), ParseJson(text).status().message())
        << text;
    EXPECT_FALSE(ParseOrderedJson(text).ok()) << text;
  }
}

TEST(JsonTest, TreesAreMeasuredBeforeThereIsOne) {
  const JsonFigures figures = MeasureJson(R"({"a":{"b":1,"c":"{:,","d":[]},"e":[1,2]})");
  EXPECT_EQ(figures.depth, 3);
  EXPECT_EQ(figures.keys, 3);
  std::string many = "[";
  for (int i = 0; i < 1000; ++i) many += "{},";
  many += "{}]";
  EXPECT_GT(MeasureJson(many).tree_bytes, 1000 * 90);
  EXPECT_TRUE(ParseJson(many, {.tree_bytes_max = MeasureJson(many).tree_bytes}).ok());
  const Status status = ParseJson(many, {.tree_bytes_max = 50000}).status();
  EXPECT_NE(status.message().find("too many values"), std::string::npos) << status.message();
  EXPECT_TRUE(ParseJson(R"({"a":1,"b":{"c":1,"d":2}})", {.keys_max = 2}).ok());
  for (const char* text : {R"({"a":1,"b":2,"c":3})", R"([{"x":{"a":1,"b":2,"c":3}}])"}) {
    EXPECT_FALSE(ParseJson(text, {.keys_max = 2}).ok()) << text;
    EXPECT_FALSE(ParseOrderedJson(text, {.keys_max = 2}).ok()) << text;
  }
}

TEST(UnwantedWorkTest, IsThatOfTheThreadWhileItIsWatched) {
  std::atomic<bool> outer{false}, inner{false};
  EXPECT_FALSE(WorkIsUnwanted());
  {
    const WatchedWork watched(outer);
    outer = true;
    EXPECT_TRUE(WorkIsUnwanted());
    std::thread([] { EXPECT_FALSE(WorkIsUnwanted()) << "another thread's is its own"; }).join();
    {
      const WatchedWork again(inner);
      EXPECT_FALSE(WorkIsUnwanted());
    }
    EXPECT_TRUE(WorkIsUnwanted());
  }
  EXPECT_FALSE(WorkIsUnwanted());
}

TEST(FaultTest, WhatPassesIsToldFromWhatStays) {
  EXPECT_EQ(SystemError(ENOENT, "x").code(), StatusCode::kNotFound);
  EXPECT_EQ(SystemError(EACCES, "x").code(), StatusCode::kPermissionDenied);
  for (const int error : {EMFILE, ENFILE, EIO, ENOMEM, ESTALE, EINTR}) {
    EXPECT_TRUE(IsPassing(SystemError(error, "x"))) << error;
  }
  for (const int error : {ENOENT, ENOTDIR, EACCES, EROFS, ELOOP, ENAMETOOLONG, EISDIR}) {
    EXPECT_FALSE(IsPassing(SystemError(error, "x"))) << error;
  }
  EXPECT_FALSE(IsPassing(OkStatus()));
}

// Has a folder of its own. While it lives, nothing else opens files.
class FileFaultTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(root_ / name) << bytes;
    return root_ / name;
  }
  const std::filesystem::path root_ =
      std::filesystem::temp_directory_path() / ("graft_file_test_" + std::to_string(getpid()));
};

TEST_F(FileFaultTest, OnlyWhatIsNotThereIsNotFound) {
  const std::string path = Write("file", "bytes");
  EXPECT_EQ(*ReadFile(path), "bytes");
  EXPECT_EQ(ReadFile(path + "none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadFile(path, 4).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadFile(root_).status().code(), StatusCode::kInvalidArgument);
  ASSERT_EQ(mkfifo((root_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(ReadFile(root_ / "pipe").status().code(), StatusCode::kInvalidArgument);
}

TEST_F(FileFaultTest, ACopyHasAllBytesOrIsNotThere) {
  const std::string bytes(3 << 20, 'x');  // more than one block
  const std::string from = Write("from", bytes), to = root_ / "to";
  ASSERT_TRUE(CopyWholeFile(from, to, 0644).ok());
  EXPECT_EQ(*ReadFile(to), bytes);
  for (const std::string& bad : {from + "none", root_.string()}) {
    ASSERT_EQ(unlink(to.c_str()), 0);
    EXPECT_FALSE(CopyWholeFile(bad, to, 0644).ok()) << bad;
    EXPECT_FALSE(FileExists(to)) << "an empty file would be taken for the copy";
    Write("to", "");
  }
}

TEST_F(FileFaultTest, WithoutDescriptorsAFileIsUnavailableAndNotGone) {
  const std::string path = Write("file", "bytes");
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status open = ReadFile(path).status();
  const Status jailed = FileJail({root_}).Read(path, 100).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(open.code(), StatusCode::kUnavailable) << open.ToString();
  EXPECT_EQ(jailed.code(), StatusCode::kUnavailable) << jailed.ToString();
  EXPECT_TRUE(ReadFile(path).ok());
}

TEST_F(FileFaultTest, AFileThatMayNotBeReadIsToldFromOneThatIsNotThere) {
  const std::string path = Write("file", "bytes");
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  const int user = setfsuid(getuid() == 0 ? 65534 : getuid());  // root may read every file
  const Status status = ReadFile(path).status();
  setfsuid(static_cast<uid_t>(user));
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << status.ToString();
}

TEST_F(FileFaultTest, AJailReadsInsideItsRootsAlone) {
  namespace fs = std::filesystem;
  fs::create_directories(root_ / "in" / "a");
  fs::create_directories(root_ / "blobs");
  Write("secret", "secret");
  Write("in/a/file", "inside");
  Write("blobs/b", "blob");
  fs::create_symlink("../a/file", root_ / "in" / "a" / "link");
  fs::create_symlink(root_ / "in" / "a" / "file", root_ / "in" / "a" / "absolute");
  fs::create_symlink("../../secret", root_ / "in" / "a" / "out");
  fs::create_symlink("../../blobs/b", root_ / "in" / "a" / "blob");
  const FileJail jail({root_ / "in"});
  for (const char* name : {"file", "link", "absolute"}) {
    EXPECT_EQ(*jail.Read(root_ / "in" / "a" / name, 100), "inside") << name;
  }
  EXPECT_EQ(*jail.Read("a/file", 100), "inside");
  for (const char* name : {"out", "blob", "../../secret"}) {
    EXPECT_EQ(jail.Read(root_ / "in" / "a" / name, 100).status().code(),
              StatusCode::kPermissionDenied)
        << name;
  }
  EXPECT_EQ(jail.Read(root_ / "in" / "none", 100).status().code(), StatusCode::kNotFound);
  const FileJail wider({root_ / "in", root_ / "blobs"});
  EXPECT_EQ(*wider.Read("a/blob", 100), "blob");
  EXPECT_EQ(*wider.Resolve("a/blob"), fs::canonical(root_ / "blobs" / "b"));
  EXPECT_EQ(*FileJail().Read(root_ / "secret", 100), "secret") << "no roots, no jail";
}

// The file is swapped for a link out of the root and back, as fast as possible.
TEST_F(FileFaultTest, AJailLosesNoRace) {
  namespace fs = std::filesystem;
  fs::create_directories(root_ / "in");
  Write("secret", "secret");
  Write("in/file", "inside");
  std::atomic<bool> stop = false;
  std::thread swapper([&] {
    while (!stop) {
      fs::create_symlink(root_ / "secret", root_ / "in" / "next");
      fs::rename(root_ / "in" / "next", root_ / "in" / "file");
      Write("in/next", "inside");
      fs::rename(root_ / "in" / "next", root_ / "in" / "file");
    }
  });
  const FileJail jail({root_ / "in"});
  int num_read = 0;
  // A thread that the machine holds up may leave the link there for all of the first ones.
  for (int i = 0; i < 3000 || (num_read == 0 && i < 1'000'000); ++i) {
    const Result<std::string> text = jail.Read("file", 100);
    if (!text.ok()) continue;
    ++num_read;
    if (*text == "secret") ADD_FAILURE() << "read " << i << " left the root";
  }
  stop = true;
  swapper.join();
  EXPECT_GT(num_read, 0);
}

TEST(FileTest, ResolveInsideKeepsThePathJailed) {
  namespace fs = std::filesystem;
  const fs::path root =
      fs::temp_directory_path() / ("graft_base_test_" + std::to_string(getpid())) / "root";
  fs::remove_all(root.parent_path());
  fs::create_directories(root / "a");
  std::ofstream(root.parent_path() / "secret") << "x";
  fs::create_symlink(root.parent_path(), root / "link");
  EXPECT_TRUE(ResolveInside(root, "a").ok());
  EXPECT_TRUE(ResolveInside(root, (root / "a").string()).ok());
  EXPECT_TRUE(ResolveInside(root, "a/../a").ok());
  EXPECT_EQ(ResolveInside(root, "../secret").status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ResolveInside(root, "../nothing").status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ResolveInside(root, "link/secret").status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ResolveInside(root, "/etc/passwd").status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ResolveInside(root, "b").status().code(), StatusCode::kNotFound);
  // Errors name the root by its canonical path, which a server takes out of its answers.
  const fs::path other_name = root.parent_path() / "other name";
  fs::create_symlink(root, other_name);
  for (const char* path : {"b", "../secret"}) {
    const std::string message = ResolveInside(other_name, path).status().message();
    EXPECT_NE(message.find(fs::canonical(root).string()), std::string::npos) << message;
  }
  fs::remove_all(root.parent_path());
}

// Computes the whole table, without leaving cells out.
int PlainDistance(const std::string& a, const std::string& b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = static_cast<int>(i + j);
        continue;
      }
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

TEST(NearestNamesTest, TheBandGivesTheTablesDistance) {
  Random random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string words[2];
    for (std::string& word : words) {
      const int length = static_cast<int>(random.Uniform() * 9);
      for (int j = 0; j < length; ++j) word += static_cast<char>('a' + random.Uniform() * 3);
    }
    for (const int limit : {0, 1, 2, 4, 12}) {
      EXPECT_EQ(EditDistance(words[0], words[1], limit),
                std::min(PlainDistance(words[0], words[1]), limit + 1))
          << words[0] << " " << words[1] << " " << limit;
    }
  }
}

TEST(NearestNamesTest, AnIndexFindsTheFewThatAreNear) {
  NameIndex index;
  char name[32];
  for (int i = 0; i < 20000; ++i) {
    std::snprintf(name, sizeof(name), "customer-%06d-final", i);
    index.Insert(name);
  }
  const auto nearest = [&](const std::string& asked, const NameIndex::Filter& allows = {}) {
    const std::vector<std::string> candidates = index.Candidates(asked, allows);
    EXPECT_LE(candidates.size(), NameIndex::kCandidatesMax);
    return NearestNames(asked, candidates, 1);
  };
  EXPECT_EQ(nearest("ustomer-000423-final"), "'customer-000423-final'");
  EXPECT_EQ(nearest("Customer-004711-finl"), "'customer-004711-final'");
  EXPECT_EQ(nearest("something else"), "");
  EXPECT_EQ(nearest(std::string(1000, 'c')), "");
  EXPECT_EQ(nearest("customer-000423-finall",
                    [](const std::string& known) { return known != "customer-000423-final"; })
                .find("'customer-000423-final'"),
            std::string::npos);
  index.Erase("customer-000423-final");
  index.Erase("customer-000423-final");
  EXPECT_NE(nearest("ustomer-000423-final"), "'customer-000423-final'");
  index.Insert("customer-000423-final");
  EXPECT_EQ(nearest("ustomer-000423-final"), "'customer-000423-final'");
}

TEST(RandomTest, DrawsDependOnSeedAndCounterAlone) {
  EXPECT_EQ(RandomBits(1, 2), RandomBits(1, 2));
  EXPECT_NE(RandomBits(1, 2), RandomBits(1, 3));
  EXPECT_NE(RandomBits(1, 2), RandomBits(2, 2));
  Random random(7);
  double sum = 0.0, square_sum = 0.0;
  for (int i = 0; i < 20000; ++i) {
    const double x = random.Normal();
    sum += x;
    square_sum += x * x;
  }
  EXPECT_NEAR(sum / 20000, 0.0, 0.05);
  EXPECT_NEAR(square_sum / 20000, 1.0, 0.05);
}

TEST(MetricsTest, RendersAndRemovesSeries) {
  // On the stack TSan would take mutexes of later tests, at the same places, for these.
  const auto owned = std::make_unique<Metrics>();
  Metrics& metrics = *owned;
  metrics.Counter("graft_tokens_total", "Tokens.", {{"adapter", "a"}}).Increment(3);
  metrics.Counter("graft_tokens_total", "Tokens.", {{"adapter", "a"}}).Increment();
  EXPECT_NE(metrics.Render().find("graft_tokens_total{adapter=\"a\"} 4"), std::string::npos);
  prometheus::Counter& other = metrics.Counter("graft_tokens_total", "Tokens.", {{"adapter", "b"}});
  other.Increment();
  metrics.RemoveCounter("graft_tokens_total", other);
  EXPECT_EQ(metrics.Render().find("adapter=\"b\""), std::string::npos);
  EXPECT_NE(metrics.Render().find("graft_tokens_total{adapter=\"a\"} 4"), std::string::npos);
}

TEST(ThreadPoolTest, RunsEveryRangeOnce) {
  for (const int num_threads : {1, 2, 3, 5}) {
    ThreadPool pool(num_threads);
    for (int64_t n = 0; n < 200; ++n) {
      std::vector<int> touched(n, 0);
      pool.ParallelFor(n, 1 + n % 7, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++touched[i];
      });
      EXPECT_EQ(std::accumulate(touched.begin(), touched.end(), int64_t{0}), n);
      for (const int count : touched) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPoolTest, TellsTheCallerThatMemoryRanOut) {
  for (const int num_threads : {1, 3}) {
    ThreadPool pool(num_threads);
    for (int unlucky = 0; unlucky < num_threads; ++unlucky) {
      std::atomic<int> num_ended{0};
      const auto work = [&](int worker_idx) {
        if (worker_idx == unlucky) ThrowOutOfMemory("nothing left");
        ++num_ended;
      };
      EXPECT_THROW(pool.Run(work), std::bad_alloc);
      EXPECT_EQ(num_ended, num_threads - 1) << "the others have ended, too";
    }
    std::atomic<int> num_run{0};
    pool.Run([&](int) { ++num_run; });
    EXPECT_EQ(num_run, num_threads);
  }
}

// More threads than any machine has cores, as on a shared machine: each part runs once all the
// same, whichever thread runs it.
TEST(ThreadPoolTest, OneThreadMayDoThePartsOfOthers) {
  ThreadPool pool(64);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::atomic<int>> counts(64);
    pool.Run([&](int worker_idx) { ++counts[static_cast<size_t>(worker_idx)]; });
    for (const auto& count : counts) ASSERT_EQ(count, 1);
  }
}

// The scheduler lets no worker begin while the caller's part lasts, nor long after.
TEST(ThreadPoolTest, TheCallerDoesWhatNobodyHasBegun) {
  ThreadPool pool(3);
  pool.Run([](int) {});
  std::atomic<int> num_by_caller{0};
  const auto caller = std::this_thread::get_id();
  // Workers are held in one part each round; those of a round that they miss are the caller's.
  for (int round = 0; round < 1000 && num_by_caller == 0; ++round) {
    pool.Run([&](int worker_idx) {
      if (worker_idx != 0 && std::this_thread::get_id() == caller) ++num_by_caller;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // so that workers fall asleep
  }
  EXPECT_GT(num_by_caller, 0);
}

// Else both would wait for each other's parts for ever.
TEST(ThreadPoolTest, TwoCallersAtOnceAreABug) {
  const auto call_twice = [] {
    ThreadPool pool(2);
    pool.Run([&pool](int /*worker*/) { pool.Run([](int /*worker*/) {}); });
  };
  EXPECT_DEATH(call_twice(), "two threads call one ThreadPool at once");
}

TEST(ThreadNameTest, IsWhatTheSystemShows) {
  std::string shown;
  std::thread([&shown] {
    NameThread("adapter watcher");
    std::ifstream file("/proc/thread-self/comm");
    std::getline(file, shown);
  }).join();
  EXPECT_EQ(shown, "adapter watcher");
}

TEST(ThreadNameDeathTest, HasFifteenBytesAtMost) {
  EXPECT_DEATH(NameThread("sixteen letters."), "15 bytes");
}

TEST(ThreadPoolTest, WakesSleepers) {
  ThreadPool pool(4);
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> count{0};
    pool.Run([&](int) { ++count; });
    EXPECT_EQ(count, 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace
}  // namespace graft
