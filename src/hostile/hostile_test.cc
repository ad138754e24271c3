// Clusters among faults: what must hold of each does, a seed does the same each time, and defects
// are found. GRAFT_HOSTILE_SEED=N runs that seed alone and prints what happens in it;
// GRAFT_HOSTILE_SEEDS=N says how many there are; GRAFT_HOSTILE_HASHES=N prints for each of so many
// seeds a hash of what happens, for tools/same_behaviour.sh.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include "base/log.h"
#include "base/long_tests.h"
#include "hostile/hostile_cluster.h"

namespace graft {
namespace {

constexpr uint64_t kSeeds = 30;
constexpr uint64_t kSeedsLong = 10'000;
// A test each, so that they are shared out among processes.
constexpr uint64_t kParts = 10;
constexpr uint64_t kSeedsForDefect = 60;
// The first ones, which MuchHappens runs.
constexpr uint64_t kSeedsForMuch = 12;

uint64_t NumSeeds() {
  const char* const wanted = std::getenv("GRAFT_HOSTILE_SEEDS");
  if (wanted != nullptr) return std::strtoull(wanted, nullptr, 10);
  return LongTests() ? kSeedsLong : kSeeds;
}

HostileResult RunSeed(uint64_t seed, bool keeps_lines = false, Defect defect = Defect::kNone) {
  return HostileCluster({.seed = seed, .keeps_lines = keeps_lines, .defect = defect}).Run();
}

std::string HowToReplay(uint64_t seed) {
  return "GRAFT_HOSTILE_SEED=" + std::to_string(seed) +
         " hostile_test --gtest_filter=HostileTest.OneSeed prints what happens";
}

class HostileSeedsTest : public testing::TestWithParam<uint64_t> {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(InitLog("off").ok()); }
};

TEST_P(HostileSeedsTest, HoldWhatIsPromised) {
  for (uint64_t seed = kSeedsForMuch + 1 + GetParam(); seed <= NumSeeds(); seed += kParts) {
    const HostileResult result = RunSeed(seed);
    ASSERT_EQ(result.found, "") << "seed " << seed << "; " << HowToReplay(seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Part, HostileSeedsTest, testing::Range(uint64_t{0}, kParts));

struct FoundDefect {
  Defect defect = Defect::kNone;
  const char* name = "";
  const char* found = "";  // a part of what is said of it
};

void PrintTo(const FoundDefect& defect, std::ostream* out) { *out << defect.name; }

class HostileDefectTest : public testing::TestWithParam<FoundDefect> {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(InitLog("off").ok()); }
};

TEST_P(HostileDefectTest, IsFound) {
  for (uint64_t seed = 1; seed <= kSeedsForDefect; ++seed) {
    const std::string found = RunSeed(seed, /*keeps_lines=*/false, GetParam().defect).found;
    if (found.empty()) continue;
    EXPECT_NE(found.find(GetParam().found), std::string::npos) << found << "; seed " << seed;
    return;
  }
  FAIL() << "no seed of " << kSeedsForDefect << " finds it";
}

INSTANTIATE_TEST_SUITE_P(
    Each, HostileDefectTest,
    testing::Values(FoundDefect{Defect::kLosesTokens, "LosesTokens", "wrong token"},
                    FoundDefect{Defect::kDoublesTokens, "DoublesTokens", "wrong token"},
                    FoundDefect{Defect::kChangesTokens, "ChangesTokens", "wrong token"},
                    FoundDefect{Defect::kMixesArithmetics, "MixesArithmetics", "wrong token"},
                    FoundDefect{Defect::kForgetsRequests, "ForgetsRequests", "does not end"},
                    FoundDefect{Defect::kForgetsCancels, "ForgetsCancels", "nobody there waits"},
                    FoundDefect{Defect::kServesTheDead, "ServesTheDead", "nobody there waits"},
                    FoundDefect{Defect::kHidesSteps, "HidesSteps", "does not count"},
                    FoundDefect{Defect::kForgetsDeaths, "ForgetsDeaths", "no runner has taken"}),
    [](const auto& info) { return info.param.name; });

class HostileTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(InitLog("off").ok()); }
};

TEST_F(HostileTest, ASeedDoesTheSameEachTime) {
  for (const uint64_t seed : {1, 2}) {
    const HostileResult once = RunSeed(seed, /*keeps_lines=*/true);
    const HostileResult again = RunSeed(seed, /*keeps_lines=*/true);
    EXPECT_EQ(once.lines, again.lines) << "seed " << seed;
    EXPECT_EQ(once.hash, again.hash);
    EXPECT_GT(once.lines.size(), 50u);
  }
}

// Else the seeds would prove nothing. What is promised holds of these, too.
TEST_F(HostileTest, MuchHappens) {
  const std::map<std::string, int> least = {{"ends: length", 200},
                                            {"ends: cancelled", 20},
                                            {"ends: error", 1},
                                            {"UNAVAILABLE", 10},
                                            {"RESOURCE_EXHAUSTED", 10},
                                            {"goes to a runner with 1", 10},
                                            {"a death counts against", 10},
                                            {"evicts request", 5},
                                            {"is lost with it", 10},
                                            {"dies, ending 0", 5},
                                            {"dies, ending 1", 5},
                                            {"dies, ending 2", 5},
                                            {"stops for", 10},
                                            {"it has been silent", 10},
                                            {"are cut apart", 10},
                                            {"a stream breaks", 3},
                                            {"drains", 3},
                                            {"times as slow", 3},
                                            {"loads or unloads", 3}};
  std::map<std::string, int> seen;
  for (uint64_t seed = 1; seed <= kSeedsForMuch; ++seed) {
    const HostileResult result = RunSeed(seed, /*keeps_lines=*/true);
    ASSERT_EQ(result.found, "") << "seed " << seed << "; " << HowToReplay(seed);
    for (const std::string& line : result.lines) {
      for (const auto& [what, times] : least) seen[what] += line.find(what) != std::string::npos;
    }
  }
  for (const auto& [what, times] : least) EXPECT_GE(seen[what], times) << what;
}

TEST_F(HostileTest, OneSeed) {
  const char* const seed = std::getenv("GRAFT_HOSTILE_SEED");
  if (seed == nullptr) GTEST_SKIP() << "GRAFT_HOSTILE_SEED=N names none";
  const HostileResult result = RunSeed(std::strtoull(seed, nullptr, 10), /*keeps_lines=*/true);
  for (const std::string& line : result.lines) std::cout << line << "\n";
  EXPECT_EQ(result.found, "");
}

TEST_F(HostileTest, Hashes) {
  const char* const wanted = std::getenv("GRAFT_HOSTILE_HASHES");
  if (wanted == nullptr) GTEST_SKIP() << "GRAFT_HOSTILE_HASHES=N names no seeds";
  const uint64_t num_seeds = std::strtoull(wanted, nullptr, 10);
  for (uint64_t seed = 1; seed <= num_seeds; ++seed) {
    const HostileResult result = RunSeed(seed);
    std::cout << "hostile seed " << seed << " " << result.hash << "\n";
    EXPECT_EQ(result.found, "") << "seed " << seed << "; " << HowToReplay(seed);
  }
}

}  // namespace
}  // namespace graft
