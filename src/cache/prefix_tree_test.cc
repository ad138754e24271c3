#include "cache/prefix_tree.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "base/random.h"

namespace graft {
namespace {

constexpr int32_t kPageTokens = 4;

class PrefixTreeTest : public testing::Test {
 protected:
  // What a sequence that computes all whole pages of `tokens` leaves: matched, then own pages.
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
  PrefixTree tree_{pool_, kPageTokens};
  const PrefixKey base_{"", ""};
  const std::vector<int32_t> tokens_ = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
};

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
  forked[0] = 99;  // the second and third page's tokens alone find nothing
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
  // Computed at the same time, before the first was indexed.
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
  EXPECT_TRUE(tree_.EvictOldest());  // tokens_ was asked for before `other`
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

// Against a map from (key, leading tokens) to page, through eviction and shared ownership.
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
