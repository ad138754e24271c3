#include "cache/prefix_tree.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <set>

#include "base/random.h"
#include "cache/keyed_hash.h"

namespace graft {
namespace {

constexpr int32_t kPageTokens = 4;

class PrefixTreeTest : public testing::Test {
 protected:
  // Does what a sequence does that computes all whole pages of `tokens`: matches, then adds its own
  // pages.
  PageList Compute(const PrefixKey& key, const std::vector<int32_t>& tokens) {
    PageList pages = tree_.Match(key, tokens);
    const int32_t num_pages = static_cast<int32_t>(tokens.size()) / kPageTokens;
    for (int32_t idx = pages.size(); idx < num_pages; ++idx) {
      PageRef page = pool_.Allocate();
      if (!page && tree_.EvictOldest()) page = pool_.Allocate();
      CHECK(page) << "the test's pool is too small";
      pages.Append(std::move(page));
      tree_.Insert(key, pages, idx, PageOf(tokens, idx));
    }
    return pages;
  }
  static std::span<const int32_t> PageOf(const std::vector<int32_t>& tokens, int32_t idx) {
    return std::span(tokens).subspan(static_cast<size_t>(idx * kPageTokens), kPageTokens);
  }
  void TearDown() override { ExpectIntegrity(); }
  void ExpectIntegrity() {
    EXPECT_EQ(pool_.CheckIntegrity().ToString(), "OK");
    EXPECT_EQ(tree_.CheckIntegrity().ToString(), "OK");
  }

  PagePool pool_{8};
  PrefixTree tree_{pool_, kPageTokens, /*hash_key=*/1};
  const PrefixKey base_{"", ""};
  const std::vector<int32_t> tokens_ = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
};

TEST_F(PrefixTreeTest, WhatActsLaterBranchesOffTheBasesPages) {
  const PageList base = Compute(base_, tokens_);
  const PrefixKey later{"", "a", 9};  // in the midst of the third page
  EXPECT_EQ(tree_.Match(later, tokens_).size(), 2);
  const PageList own = Compute(later, tokens_);
  EXPECT_EQ(own.page(1), base.page(1));
  EXPECT_NE(own.page(2), base.page(2));
  const PageList other = Compute({"", "b", 9}, tokens_);
  EXPECT_EQ(other.page(1), base.page(1));
  EXPECT_NE(other.page(2), own.page(2));
  // Another place, another numbering of the same tokens' rows.
  EXPECT_EQ(tree_.Match({"", "a", 10}, tokens_).size(), 2);
  EXPECT_EQ(tree_.Match({"", "a", 7}, tokens_).size(), 1);
  EXPECT_EQ(tree_.Match({"", "a", 12}, tokens_).size(), 3) << "all of it is the base's";
  EXPECT_EQ(tree_.Match({"", "a", 1 << 30}, tokens_).size(), 3);
  EXPECT_EQ(tree_.Match({"", "a", 0}, tokens_).size(), 0);
  EXPECT_EQ(tree_.Match({"t", "a", 9}, tokens_).size(), 0);
  EXPECT_EQ(tree_.Match(later, tokens_).page(2), own.page(2));
  ExpectIntegrity();
}

TEST_F(PrefixTreeTest, ItsDigestTellsTheNamesThatAnybodyCanWorkOut) {
  const auto told = [this](const PrefixKey& key) {
    const std::vector<uint64_t> words = tree_.digest().Read();
    int32_t num_pages = 0;
    for (const uint64_t name :
         PrefixNames(EmptyPrefixName(key.tenant, key.adapter_hash, 0, kPageTokens), tokens_,
                     kPageTokens, 100)) {
      if ((words[PrefixClass(name) / 64] >> PrefixClass(name) % 64 & 1) == 0) break;
      ++num_pages;
    }
    return num_pages;
  };
  EXPECT_EQ(told(base_), 0);
  { const PageList pages = Compute(base_, tokens_); }
  EXPECT_EQ(told(base_), 3);
  EXPECT_EQ(told({"t", ""}), 0);
  ASSERT_TRUE(tree_.EvictOldest());
  EXPECT_EQ(told(base_), 2);
  { const PageList pages = Compute({"t", "a", 9}, tokens_); }
  EXPECT_EQ(told({"t", ""}), 2) << "the base's part";
  EXPECT_EQ(told({"t", "a"}), 0);
  while (tree_.EvictOldest()) {
  }
  EXPECT_EQ(tree_.digest().Read(), std::vector<uint64_t>(kPrefixClassWords));
}

TEST_F(PrefixTreeTest, ABranchGoesBeforeWhatItHangsOn) {
  const PrefixKey later{"", "a", 5};
  Compute(later, tokens_);
  EXPECT_EQ(tree_.num_roots(), 2);
  ASSERT_TRUE(tree_.EvictOldest());
  ASSERT_TRUE(tree_.EvictOldest());
  EXPECT_EQ(tree_.num_roots(), 1);
  EXPECT_EQ(tree_.Match(base_, tokens_).size(), 1);
  EXPECT_EQ(Compute(later, tokens_).size(), 3);
  while (tree_.EvictOldest()) ExpectIntegrity();
  EXPECT_EQ(tree_.num_roots(), 0);
  // An adapter that acts from within the first page on has all pages for itself.
  Compute({"", "a", 3}, tokens_);
  EXPECT_EQ(tree_.num_roots(), 1);
  EXPECT_EQ(tree_.Match(base_, tokens_).size(), 0);
}

TEST_F(PrefixTreeTest, MatchesWholePagesOfTheLongestPrefix) {
  const PageList pages = Compute(base_, tokens_);
  const auto num_matched = [&](size_t num_tokens) {
    const PageList matched = tree_.Match(base_, std::span(tokens_).first(num_tokens));
    for (int32_t i = 0; i < matched.size(); ++i) EXPECT_EQ(matched.page(i), pages.page(i));
    return matched.size();
  };
  EXPECT_EQ(num_matched(0), 0);
  EXPECT_EQ(num_matched(3), 0);
  EXPECT_EQ(num_matched(4), 1);
  EXPECT_EQ(num_matched(11), 2);
  EXPECT_EQ(num_matched(12), 3);
  std::vector<int32_t> forked = tokens_;
  forked[5] = 99;
  EXPECT_EQ(tree_.Match(base_, forked).size(), 1);
  forked[0] = 99;  // the second or third page alone matches nothing
  forked[5] = tokens_[5];
  EXPECT_EQ(tree_.Match(base_, forked).size(), 0);
}

TEST_F(PrefixTreeTest, NeverSharesAcrossTenantsOrAdapters) {
  Compute({"tenant", "hash"}, tokens_);
  EXPECT_EQ(tree_.Match({"tenant", "hash"}, tokens_).size(), 3);
  EXPECT_EQ(tree_.Match({"other", "hash"}, tokens_).size(), 0);
  EXPECT_EQ(tree_.Match({"tenant", "reloaded"}, tokens_).size(), 0);
  EXPECT_EQ(tree_.Match({"", "hash"}, tokens_).size(), 0);
  EXPECT_EQ(tree_.Match({"tenant", ""}, tokens_).size(), 0);
  EXPECT_EQ(tree_.Match({"tenanthash", ""}, tokens_).size(), 0);
  EXPECT_EQ(tree_.Match({"hash", "tenant"}, tokens_).size(), 0);
}

TEST_F(PrefixTreeTest, ASecondPageOfTheSameContentGivesWay) {
  const PageList first = Compute(base_, tokens_);
  // Both are computed at the same time, before the first one is in the index.
  PageList second;
  for (int32_t idx = 0; idx < 3; ++idx) second.Append(pool_.Allocate());
  EXPECT_EQ(pool_.num_free(), 2);
  for (int32_t idx = 0; idx < 3; ++idx) {
    tree_.Insert(base_, second, idx, PageOf(tokens_, idx));
    EXPECT_EQ(second.page(idx), first.page(idx));
  }
  EXPECT_EQ(pool_.num_free(), 5);
  EXPECT_EQ(tree_.num_nodes(), 3);
}

TEST_F(PrefixTreeTest, EvictsLeavesOfTheLongestUnusedPrefixFirst) {
  const std::vector<int32_t> other = {1, 2, 3, 4, 50, 60, 70, 80};
  Compute(base_, tokens_);
  Compute(base_, other);
  EXPECT_EQ(pool_.num_cached(), 4);
  EXPECT_TRUE(tree_.EvictOldest());
  EXPECT_EQ(tree_.Match(base_, tokens_).size(), 2);
  EXPECT_EQ(tree_.Match(base_, other).size(), 2);
  EXPECT_TRUE(tree_.EvictOldest());  // tokens_ was used before `other`
  EXPECT_EQ(tree_.Match(base_, tokens_).size(), 1);
  ExpectIntegrity();
  EXPECT_TRUE(tree_.EvictOldest());
  EXPECT_TRUE(tree_.EvictOldest());
  EXPECT_EQ(tree_.num_nodes(), 0);
  EXPECT_EQ(tree_.num_roots(), 0);
  EXPECT_FALSE(tree_.EvictOldest());
}

TEST_F(PrefixTreeTest, NeverEvictsWhatIsReferenced) {
  const PageList held = Compute(base_, {1, 2, 3, 4, 5, 6, 7, 8});
  Compute(base_, tokens_);
  EXPECT_TRUE(tree_.EvictOldest());
  EXPECT_FALSE(tree_.EvictOldest());
  EXPECT_EQ(tree_.Match(base_, tokens_).size(), 2);
}

// Compares with a map from (key, leading tokens) to page, through eviction and shared ownership.
TEST_F(PrefixTreeTest, AMatchIsCurrentUntilItWouldEndElsewhere) {
  EXPECT_FALSE(tree_.IsCurrent(tree_.Find(base_, tokens_))) << "nothing is found again at once";
  Compute(base_, {tokens_.begin(), tokens_.begin() + 8});
  const PrefixMatch two = tree_.Find(base_, tokens_);
  EXPECT_EQ(two.num_pages, 2);
  EXPECT_EQ(tree_.NumCached(two), 2);
  {
    const PageList first = tree_.Match(base_, std::span(tokens_).first(4));
    EXPECT_EQ(tree_.NumCached(two), 1);
  }
  // Neither another prefix, nor one that branches off earlier, changes it.
  Compute(base_, {1, 2, 3, 4, 50, 51, 52, 53});
  Compute({"tenant", ""}, tokens_);
  ASSERT_TRUE(tree_.IsCurrent(two));
  const PageList shared = tree_.Share(two);
  EXPECT_EQ(shared.size(), 2);
  EXPECT_EQ(shared.page(1), two.page);
  EXPECT_EQ(shared.page(0), tree_.Match(base_, std::span(tokens_).first(4)).page(0));
  Compute(base_, tokens_);
  EXPECT_FALSE(tree_.IsCurrent(two)) << "a page behind it";
  EXPECT_EQ(tree_.Find(base_, tokens_).num_pages, 3);
}

TEST_F(PrefixTreeTest, AMatchIsNotCurrentOnceItsPageWasEvicted) {
  Compute(base_, {tokens_.begin(), tokens_.begin() + 4});
  const PrefixMatch one = tree_.Find(base_, tokens_);
  ASSERT_TRUE(tree_.IsCurrent(one));
  ASSERT_TRUE(tree_.EvictOldest());
  EXPECT_FALSE(tree_.IsCurrent(one));
  const PageList again = Compute(base_, {tokens_.begin(), tokens_.begin() + 4});
  EXPECT_EQ(again.page(0), one.page) << "the same page, which was something else meanwhile";
  EXPECT_FALSE(tree_.IsCurrent(one));
}

// Prompts and salts that share a bucket under one key share one under another key only by chance.
TEST(KeyedHashTest, WhatCollidesUnderOneKeyDoesNotUnderAnother) {
  constexpr uint64_t kBuckets = 64;
  const auto spread = [](const std::function<uint64_t(uint64_t key, int32_t i)>& hash) {
    std::vector<int32_t> colliding;
    for (int32_t i = 0; colliding.size() < 256; ++i) {
      if (hash(1, i) % kBuckets == 0) colliding.push_back(i);
    }
    std::map<uint64_t, int> counts;
    for (const int32_t i : colliding) ++counts[hash(2, i) % kBuckets];
    int largest = 0;
    for (const auto& [bucket, count] : counts) largest = std::max(largest, count);
    return largest;
  };
  EXPECT_LT(spread([](uint64_t key, int32_t i) {
              const int32_t tokens[] = {5, i, 7};
              return KeyedHash(key, 3, tokens);
            }),
            20);
  EXPECT_LT(spread([](uint64_t key, int32_t i) {
              return KeyedHash(key, "a salt of some length " + std::to_string(i));
            }),
            20);
}

TEST(KeyedHashTest, EveryTokenAndByteCounts) {
  std::vector<int32_t> tokens = {1, 2, 3, 4, 5};
  std::set<uint64_t> hashes = {KeyedHash(9, 0, tokens), KeyedHash(9, 1, tokens),
                               KeyedHash(8, 0, tokens),
                               KeyedHash(9, 0, std::span(tokens).first(4))};
  for (int32_t& token : tokens) {
    ++token;
    hashes.insert(KeyedHash(9, 0, tokens));
  }
  EXPECT_EQ(hashes.size(), 9u);
  hashes.clear();
  for (const char* text : {"", "a", "b", "aaaaaaaa", "aaaaaaab", "aaaaaaaaa", "aaaaaaaab"}) {
    hashes.insert(KeyedHash(9, text));
  }
  hashes.insert(KeyedHash(9, std::string_view("\0", 1)));
  EXPECT_EQ(hashes.size(), 8u);
}

TEST_F(PrefixTreeTest, AgreesWithANaiveMapInARandomRun) {
  Random random(7);
  using Entry = std::pair<std::string, std::vector<int32_t>>;
  std::map<Entry, int32_t> naive;
  std::deque<PageList> held;
  for (int step = 0; step < 20000; ++step) {
    const PrefixKey key = {random.Below(2) == 0 ? "a" : "b", random.Below(2) == 0 ? "x" : "y"};
    std::vector<int32_t> tokens(random.Below(14));
    for (int32_t& token : tokens) token = static_cast<int32_t>(random.Below(2));
    const auto entry = [&](int32_t num_pages) {
      return Entry(key.tenant + key.adapter_hash,
                   {tokens.begin(), tokens.begin() + num_pages * kPageTokens});
    };
    while (!held.empty() && (held.size() > 2 || random.Below(2) == 0)) held.pop_front();
    PageList pages = tree_.Match(key, tokens);
    const int32_t num_pages = static_cast<int32_t>(tokens.size()) / kPageTokens;
    for (int32_t i = 0; i < num_pages; ++i) {
      const auto known = naive.find(entry(i + 1));
      ASSERT_EQ(known != naive.end(), i < pages.size());
      if (i < pages.size()) {
        ASSERT_EQ(known->second, pages.page(i));
      }
    }
    for (int32_t i = pages.size(); i < num_pages; ++i) {
      PageRef page = pool_.Allocate();
      if (!page && tree_.EvictOldest()) page = pool_.Allocate();
      if (!page) break;
      std::erase_if(naive, [&](const auto& item) { return item.second == page.page(); });
      naive[entry(i + 1)] = page.page();
      pages.Append(std::move(page));
      tree_.Insert(key, pages, i, PageOf(tokens, i));
    }
    held.push_back(std::move(pages));
    ASSERT_EQ(naive.size(), static_cast<size_t>(tree_.num_nodes()));
    if (step % 16 == 0) ExpectIntegrity();
  }
}

}  // namespace
}  // namespace graft
