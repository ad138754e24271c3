#include "cache/page_pool.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

#define EXPECT_OK(expr)                            \
  do {                                             \
    const Status status = (expr);                  \
    EXPECT_TRUE(status.ok()) << status.ToString(); \
  } while (false)

TEST(PagePoolTest, HandsOutEveryPageOnceThenNone) {
  PagePool pool(3);
  PageRef a = pool.Allocate();
  PageRef b = pool.Allocate();
  PageRef c = pool.Allocate();
  EXPECT_NE(a.page(), b.page());
  EXPECT_NE(b.page(), c.page());
  EXPECT_NE(a.page(), c.page());
  EXPECT_FALSE(pool.Allocate());
  EXPECT_EQ(pool.num_referenced(), 3);
  const int32_t freed = b.page();
  b = PageRef();
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.Allocate().page(), freed);
  EXPECT_OK(pool.CheckIntegrity());
}

TEST(PagePoolTest, CopiesCountAndMovesDoNot) {
  PagePool pool(1);
  PageRef a = pool.Allocate();
  {
    PageRef copy = a;
    EXPECT_EQ(pool.references(0), 2);
    PageRef moved = std::move(copy);
    EXPECT_EQ(pool.references(0), 2);
    EXPECT_FALSE(copy);  // NOLINT(bugprone-use-after-move): moved-from is empty
    moved = a;
    EXPECT_EQ(pool.references(0), 2);
    PageRef shared = pool.Share(0);
    EXPECT_EQ(pool.references(0), 3);
  }
  EXPECT_EQ(pool.references(0), 1);
  a = PageRef();
  EXPECT_EQ(pool.num_free(), 1);
}

TEST(PagePoolTest, KeptPagesStayCachedInTheOrderOfTheirLastUse) {
  PagePool pool(3);
  PageList pages;
  for (int i = 0; i < 3; ++i) pages.Append(pool.Allocate());
  for (int i = 0; i < 3; ++i) pool.Keep(pages.page(i));
  const int32_t first = pages.page(0);
  const int32_t last = pages.page(2);
  pages.Clear();
  EXPECT_EQ(pool.num_cached(), 3);
  EXPECT_EQ(pool.OldestCached(), last);  // a list frees its last page first
  { PageRef again = pool.Share(last); }
  EXPECT_NE(pool.OldestCached(), last);
  pool.Evict(pool.OldestCached());
  EXPECT_EQ(pool.OldestCached(), first);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_OK(pool.CheckIntegrity());
  pool.Evict(first);
  pool.Evict(last);
  EXPECT_EQ(pool.OldestCached(), -1);
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_FALSE(pool.kept(last));
}

TEST(PagePoolTest, AListThatIsOverwrittenLetsGo) {
  PagePool pool(2);
  PageList a;
  a.Append(pool.Allocate());
  PageList b;
  b.Append(pool.Allocate());
  a = std::move(b);
  EXPECT_EQ(pool.num_referenced(), 1);
  EXPECT_EQ(a.size(), 1);
  EXPECT_EQ(b.size(), 0);  // NOLINT(bugprone-use-after-move)
  a.Clear();
  EXPECT_EQ(pool.num_free(), 2);
}

TEST(PagePoolDeathTest, MisuseIsABug) {
  PagePool pool(2);
  EXPECT_DEATH((void)pool.Share(0), "is free");
  EXPECT_DEATH((void)pool.references(2), "no page 2");
  EXPECT_DEATH(pool.Keep(0), "page 0");
  EXPECT_DEATH(pool.Evict(0), "not cached");
  EXPECT_DEATH(
      {
        PagePool gone(1);
        new PageRef(gone.Allocate());
      },
      "outlive");
}

}  // namespace
}  // namespace graft
