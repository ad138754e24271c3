// An etcd among faults and those around it: what must hold does, a seed does the same each time,
// and defects of etcd's are found. GRAFT_HOSTILE_ETCD_SEED=N runs that seed alone and prints what
// happens in it; GRAFT_HOSTILE_SEEDS=N says how many there are.
#include "hostile/etcd_cluster.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <string>

#include "base/log.h"
#include "base/long_tests.h"

namespace graft {
namespace etcd_cluster_test {
namespace {

constexpr uint64_t kEtcdSeeds = 8;
constexpr uint64_t kEtcdSeedsLong = 2'000;
// A test each, so that they are shared out among processes.
constexpr uint64_t kEtcdParts = 2;
constexpr uint64_t kEtcdSeedsForDefect = 40;
// The first ones, which MuchHappens runs.
constexpr uint64_t kEtcdSeedsForMuch = 6;

uint64_t NumSeeds() {
  const char* const wanted = std::getenv("GRAFT_HOSTILE_SEEDS");
  if (wanted != nullptr) return std::strtoull(wanted, nullptr, 10);
  return LongTests() ? kEtcdSeedsLong : kEtcdSeeds;
}

HostileResult RunSeed(uint64_t seed, bool keeps_lines = false, Defect defect = Defect::kNone) {
  return EtcdCluster({.seed = seed, .keeps_lines = keeps_lines, .defect = defect}).Run();
}

std::string HowToReplay(uint64_t seed) {
  return "GRAFT_HOSTILE_ETCD_SEED=" + std::to_string(seed) +
         " hostile_test --gtest_filter=EtcdClusterTest.OneSeed prints what happens";
}

class EtcdSeedsTest : public testing::TestWithParam<uint64_t> {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(InitLog("off").ok()); }
};

TEST_P(EtcdSeedsTest, HoldWhatIsPromised) {
  for (uint64_t seed = kEtcdSeedsForMuch + 1 + GetParam(); seed <= NumSeeds(); seed += kEtcdParts) {
    const HostileResult result = RunSeed(seed);
    ASSERT_EQ(result.found, "") << "seed " << seed << "; " << HowToReplay(seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Part, EtcdSeedsTest, testing::Range(uint64_t{0}, kEtcdParts));

struct EtcdDefect {
  Defect defect = Defect::kNone;
  const char* name = "";
  const char* found = "";  // a part of what is said of it
  bool is_rare = false;
};

void PrintTo(const EtcdDefect& defect, std::ostream* out) { *out << defect.name; }

class EtcdDefectTest : public testing::TestWithParam<EtcdDefect> {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(InitLog("off").ok()); }
};

TEST_P(EtcdDefectTest, IsFound) {
  if (GetParam().is_rare && !LongTests()) GTEST_SKIP() << "it takes many seeds";
  for (uint64_t seed = 1; seed <= kEtcdSeedsForDefect; ++seed) {
    const std::string found = RunSeed(seed, /*keeps_lines=*/false, GetParam().defect).found;
    if (found.empty()) continue;
    EXPECT_NE(found.find(GetParam().found), std::string::npos) << found << "; seed " << seed;
    return;
  }
  FAIL() << "no seed of " << kEtcdSeedsForDefect << " finds it";
}

INSTANTIATE_TEST_SUITE_P(
    Each, EtcdDefectTest,
    testing::Values(EtcdDefect{Defect::kForgetsLeases, "ForgetsLeases", ""},
                    EtcdDefect{Defect::kEndsLeasesEarly, "EndsLeasesEarly", ""},
                    EtcdDefect{Defect::kIgnoresCompares, "IgnoresCompares", ""},
                    EtcdDefect{Defect::kLosesChanges, "LosesChanges", "that etcd never had"},
                    EtcdDefect{Defect::kReadsOld, "ReadsOld", "that etcd never had"},
                    EtcdDefect{Defect::kHidesDoubt, "HidesDoubt", "was made 1 times",
                               /*is_rare=*/true}),
    [](const auto& info) { return info.param.name; });

class EtcdClusterTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(InitLog("off").ok()); }
};

TEST_F(EtcdClusterTest, ASeedDoesTheSameEachTime) {
  const HostileResult once = RunSeed(1, /*keeps_lines=*/true);
  const HostileResult again = RunSeed(1, /*keeps_lines=*/true);
  EXPECT_EQ(once.lines, again.lines);
  EXPECT_EQ(once.hash, again.hash);
}

// Else the seeds would prove nothing. What is promised holds of these, too.
TEST_F(EtcdClusterTest, MuchHappens) {
  const std::map<std::string, int> least = {{"): OK", 20},         {"UNAVAILABLE", 1},
                                            {"ALREADY_EXISTS", 1}, {"dies", 2},
                                            {"stops for", 3},      {"is cut from etcd", 3},
                                            {"comes back", 3},     {"hear nothing any more", 2}};
  std::map<std::string, int> seen;
  for (uint64_t seed = 1; seed <= kEtcdSeedsForMuch; ++seed) {
    const HostileResult result = RunSeed(seed, /*keeps_lines=*/true);
    ASSERT_EQ(result.found, "") << "seed " << seed << "; " << HowToReplay(seed);
    for (const std::string& line : result.lines) {
      for (const auto& [what, times] : least) seen[what] += line.find(what) != std::string::npos;
    }
  }
  for (const auto& [what, times] : least) EXPECT_GE(seen[what], times) << what;
}

TEST_F(EtcdClusterTest, OneSeed) {
  const char* const seed = std::getenv("GRAFT_HOSTILE_ETCD_SEED");
  if (seed == nullptr) GTEST_SKIP() << "GRAFT_HOSTILE_ETCD_SEED=N names none";
  const HostileResult result = RunSeed(std::strtoull(seed, nullptr, 10), /*keeps_lines=*/true);
  for (const std::string& line : result.lines) std::cout << line << "\n";
  EXPECT_EQ(result.found, "");
}

}  // namespace
}  // namespace etcd_cluster_test
}  // namespace graft
