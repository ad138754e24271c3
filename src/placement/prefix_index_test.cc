// The index against a walk over what each runner has.
#include "placement/prefix_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "base/prefix_hash.h"
#include "base/random.h"

namespace graft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<uint64_t> NamesOf(std::string_view adapter, const std::vector<int32_t>& tokens) {
  return PrefixNames(EmptyPrefixName("t", adapter, 0, 2), tokens, 2, 100);
}

TEST(PrefixHashTest, NamesOfEqualBeginningsAreEqualAndOthersAreNot) {
  const auto names = NamesOf("a", {1, 2, 3, 4, 5});
  ASSERT_EQ(names.size(), 2u) << "of whole pages";
  const auto longer = NamesOf("a", {1, 2, 3, 5, 5, 6});
  ASSERT_EQ(longer.size(), 3u);
  EXPECT_EQ(names[0], longer[0]);
  EXPECT_NE(names[1], longer[1]);
  EXPECT_NE(NamesOf("b", {1, 2})[0], names[0]);
  EXPECT_NE(EmptyPrefixName("ta", "", 0, 2), EmptyPrefixName("t", "a", 0, 2));
  EXPECT_NE(EmptyPrefixName("t", "a", 0, 2), EmptyPrefixName("t", "a", 1, 2));
  EXPECT_NE(EmptyPrefixName("t", "a", 0, 2), EmptyPrefixName("t", "a", 0, 4));
  EXPECT_EQ(PrefixNames(7, std::vector<int32_t>(100), 2, 3).size(), 3u) << "no more than asked for";
}

TEST(PrefixIndexTest, TellsHowManyLeadingPagesEachHas) {
  PrefixIndex index;
  index.SetNumRunners(3);
  const auto names = NamesOf("a", {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(index.Match(names), IsEmpty());
  index.Add(1, std::span(names).first(2));
  index.Add(2, std::span(names).subspan(1));  // without the first it is of no use
  EXPECT_THAT(index.Match(names), ElementsAre(0, 2, 0));
  index.SetNumRunners(70);
  index.Add(69, names);
  const std::vector<int32_t> pages = index.Match(names);
  ASSERT_EQ(pages.size(), 70u);
  EXPECT_EQ(pages[1], 2);
  EXPECT_EQ(pages[2], 0);
  EXPECT_EQ(pages[69], 3);
  EXPECT_THAT(index.Match(NamesOf("b", {1, 2})), IsEmpty());
  index.Clear(1);
  EXPECT_EQ(index.MatchOn(1, names), 0);
  index.Set(69, std::vector<uint64_t>(kPrefixClassWords));
  EXPECT_EQ(index.MatchOn(69, names), 3) << "what was sent there may not be computed yet";
  index.Set(69, std::vector<uint64_t>(kPrefixClassWords));
  EXPECT_THAT(index.Match(names), IsEmpty());
}

// As in a frontend with a runner that never tells of a change, or has no cache at all.
TEST(PrefixIndexTest, WhatIsAddedAgainAndAgainTakesNoMoreMemory) {
  PrefixIndex index;
  index.SetNumRunners(2);
  const auto names = NamesOf("a", {1, 2, 3, 4, 5, 6});
  index.Add(1, names);
  const size_t num_bytes = index.num_bytes();
  Random random(1);
  for (int i = 0; i < 1000; ++i) {
    index.Add(1, names);
    index.Add(1, std::vector<uint64_t>(100, random.Below(~uint64_t{0})));
  }
  EXPECT_EQ(index.num_bytes(), num_bytes);
}

TEST(PrefixIndexTest, AgreesWithAWalkOverAllRunners) {
  Random random(3);
  const size_t num_runners = 130;
  PrefixIndex index;
  index.SetNumRunners(num_runners);
  std::vector<std::set<size_t>> has(num_runners), added(num_runners);  // classes
  std::vector<std::vector<uint64_t>> prompts;
  for (int i = 0; i < 20; ++i) {
    std::vector<int32_t> tokens(12);
    for (int32_t& token : tokens) token = static_cast<int32_t>(random.Below(2));
    prompts.push_back(NamesOf("a", tokens));
  }
  for (int step = 0; step < 2000; ++step) {
    const size_t runner = random.Below(num_runners);
    const auto& names = prompts[random.Below(prompts.size())];
    const uint64_t what = random.Below(10);
    if (what < 7) {
      const auto some = std::span(names).first(random.Below(names.size() + 1));
      index.Add(runner, some);
      for (const uint64_t name : some) {
        has[runner].insert(PrefixClass(name));
        added[runner].insert(PrefixClass(name));
      }
    } else if (what < 9) {
      std::vector<uint64_t> words(kPrefixClassWords);
      has[runner] = std::exchange(added[runner], {});
      for (const uint64_t name : names) {
        words[PrefixClass(name) / 64] |= uint64_t{1} << PrefixClass(name) % 64;
        has[runner].insert(PrefixClass(name));
      }
      index.Set(runner, words);
    } else {
      index.Clear(runner);
      has[runner].clear();
      added[runner].clear();
    }
    const auto& asked = prompts[random.Below(prompts.size())];
    const std::vector<int32_t> pages = index.Match(asked);
    for (size_t i = 0; i < num_runners; ++i) {
      int32_t wanted = 0;
      while (static_cast<size_t>(wanted) < asked.size() &&
             has[i].contains(PrefixClass(asked[static_cast<size_t>(wanted)]))) {
        ++wanted;
      }
      ASSERT_EQ(pages.empty() ? 0 : pages[i], wanted) << i;
      ASSERT_EQ(index.MatchOn(i, asked), wanted) << i;
    }
  }
}

}  // namespace
}  // namespace graft
