#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/file.h"
#include "base/json.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/sha256.h"
#include "base/thread_pool.h"

namespace graft {
namespace {

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
  EXPECT_EQ((*ParseJson(R"(["[[[\"[[[", "]"])", 1))[0], "[[[\"[[[") << "brackets of strings";
}

// Each would take minutes if its time grew with the square of its length.
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
  // By the one name that a server takes out of what it tells its clients.
  const fs::path other_name = root.parent_path() / "other name";
  fs::create_symlink(root, other_name);
  for (const char* path : {"b", "../secret"}) {
    const std::string message = ResolveInside(other_name, path).status().message();
    EXPECT_NE(message.find(fs::canonical(root).string()), std::string::npos) << message;
  }
  fs::remove_all(root.parent_path());
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

TEST(MetricsTest, RendersAndBoundsLabels) {
  Metrics metrics;
  metrics.Counter("graft_tokens_total", "Tokens.", {{"adapter", "a"}}).Increment(3);
  metrics.Counter("graft_tokens_total", "Tokens.", {{"adapter", "a"}}).Increment();
  EXPECT_NE(metrics.Render().find("graft_tokens_total{adapter=\"a\"} 4"), std::string::npos);
  EXPECT_EQ(metrics.BoundedLabel("adapter", "a", 1), "a");
  EXPECT_EQ(metrics.BoundedLabel("adapter", "b", 1), "other");
  EXPECT_EQ(metrics.BoundedLabel("adapter", "a", 1), "a");
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
