#include "cache/content_table.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace graft {
namespace {

AdapterSource Source(const std::string& key, const std::string& hash = "") {
  return {.path = "/adapters/" + key, .hash = hash, .key = key};
}

TEST(ContentTableTest, PublishesAKeyOnceAndUpToItsLimit) {
  ContentTable table(2);
  EXPECT_FALSE(table.Contains("aa"));
  EXPECT_EQ(table.Acquire("aa").status().code(), StatusCode::kNotFound);
  ASSERT_TRUE(table.Publish(Source("aa", "aa")).ok());
  EXPECT_TRUE(table.Contains("aa"));
  EXPECT_EQ(table.Publish(Source("aa")).code(), StatusCode::kAlreadyExists);
  ASSERT_TRUE(table.Publish(Source("bb")).ok());
  const Status full = table.Publish(Source("cc"));
  EXPECT_EQ(full.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(full.message().find("lists 2"), std::string::npos);
  const ContentLease lease = *table.Acquire("aa");
  EXPECT_EQ(table.SourceOf(lease.content()).path, "/adapters/aa");
  EXPECT_EQ(table.SourceOf(lease.content()).hash, "aa");
}

TEST(ContentTableTest, ARetiredContentLivesUntilItsLastLease) {
  ContentTable table(2);
  ASSERT_TRUE(table.Publish(Source("aa")).ok());
  ContentLease lease = *table.Acquire("aa");
  ContentLease other = *table.Acquire("aa");
  const int32_t content = lease.content();
  table.Retire("unknown");
  table.Retire("aa");
  EXPECT_FALSE(table.Contains("aa"));
  EXPECT_FALSE(table.Acquire("aa").ok());
  EXPECT_EQ(table.SourceOf(content).path, "/adapters/aa");
  // The same key may come back as another content while the old one is still in use.
  ASSERT_TRUE(table.Publish(Source("aa")).ok());
  EXPECT_NE(table.Acquire("aa")->content(), content);

  ContentLease moved = std::move(lease);
  EXPECT_EQ(lease.content(), -1);  // NOLINT(bugprone-use-after-move): a moved-from lease is empty
  other.Release();
  EXPECT_TRUE(table.TakeUnused().empty());
  moved = ContentLease();
  EXPECT_EQ(table.TakeUnused(), std::vector<int32_t>{content});
  EXPECT_TRUE(table.TakeUnused().empty());
  EXPECT_FALSE(table.Publish(Source("bb")).ok()) << "its id is not recycled yet";
  table.Recycle(content);
  EXPECT_EQ(table.num_contents(), 1);
  EXPECT_TRUE(table.Publish(Source("bb")).ok());
  EXPECT_EQ(table.Acquire("bb")->content(), content);
}

TEST(ContentTableTest, APlaceIsTheContentsUnderAllItsKeys) {
  ContentTable table(2);
  EXPECT_EQ(table.PlaceOf("aa"), AdapterPlace::kElsewhere);
  ASSERT_TRUE(table.Publish(Source("unread")).ok());
  ContentLease lease = *table.Acquire("unread");
  table.Identify("unread", "aa");
  table.SetPlace(lease.content(), AdapterPlace::kResident);
  EXPECT_EQ(table.PlaceOf("aa"), AdapterPlace::kResident);
  EXPECT_EQ(table.PlaceOf("unread"), AdapterPlace::kResident);
  // A content that comes back under its key is a new one, wherever the old one is.
  table.Retire("aa");
  ASSERT_TRUE(table.Publish(Source("aa", "aa")).ok());
  EXPECT_EQ(table.PlaceOf("aa"), AdapterPlace::kElsewhere);
  EXPECT_EQ(table.PlaceOf(lease.content()), AdapterPlace::kResident);
}

TEST(ContentTableTest, AnUnusedContentRings) {
  ContentTable table(2);
  int rings = 0;
  table.SetWaker([&rings] { ++rings; });
  ASSERT_TRUE(table.Publish(Source("aa")).ok());
  ASSERT_TRUE(table.Publish(Source("bb")).ok());
  ContentLease lease = *table.Acquire("aa");
  table.Retire("aa");
  EXPECT_EQ(rings, 0) << "still in use";
  lease.Release();
  EXPECT_EQ(rings, 1);
  table.SetWaker({});
  table.Retire("bb");
  EXPECT_EQ(rings, 1);
  EXPECT_EQ(table.TakeUnused().size(), 2u);
}

TEST(ContentTableTest, APathIsReplacedUnderAnyKey) {
  ContentTable table(1);
  ASSERT_TRUE(table.Publish(Source("unread")).ok());
  table.Identify("unread", "hash");
  const ContentLease lease = *table.Acquire("unread");
  EXPECT_TRUE(table.SetPath("hash", "/elsewhere"));
  EXPECT_EQ(table.SourceOf(lease.content()).path, "/elsewhere");
  EXPECT_EQ(table.SourceOf(lease.content()).hash, "hash");
  EXPECT_FALSE(table.SetPath("unknown", "/nowhere"));
}

TEST(ContentTableTest, AContentGoesByItsHashOnceItWasRead) {
  ContentTable table(3);
  ASSERT_TRUE(table.Publish(Source("unread a")).ok());
  const int32_t content = table.Acquire("unread a")->content();
  table.Identify("unread a", "hash");
  table.Identify("unread a", "hash");
  EXPECT_EQ(table.Acquire("hash")->content(), content);
  EXPECT_EQ(table.Acquire("unread a")->content(), content);
  EXPECT_EQ(table.SourceOf(content).hash, "hash");
  // A second folder with the same content gives way to the first. Requests that use it go on.
  ASSERT_TRUE(table.Publish(Source("unread b")).ok());
  ContentLease lease = *table.Acquire("unread b");
  table.Identify("unread b", "hash");
  EXPECT_EQ(table.Acquire("unread b")->content(), content);
  EXPECT_TRUE(table.TakeUnused().empty());
  const int32_t second = lease.content();
  lease.Release();
  EXPECT_EQ(table.TakeUnused(), std::vector<int32_t>{second});
  // All names of the content go together.
  table.Retire("hash");
  for (const char* key : {"hash", "unread a", "unread b"}) EXPECT_FALSE(table.Contains(key)) << key;
  EXPECT_EQ(table.TakeUnused(), std::vector<int32_t>{content});
  table.Identify("unread a", "hash");
  EXPECT_FALSE(table.Contains("hash"));
}

// Unloading all of many adapters looks at each one's own keys, not at all keys every time.
TEST(ContentTableTest, RetiringLooksAtItsOwnKeysAlone) {
  constexpr int kContents = 500;
  ContentTable table(kContents);
  for (int i = 0; i < kContents; ++i) {
    ASSERT_TRUE(table.Publish(Source("unread " + std::to_string(i))).ok());
    table.Identify("unread " + std::to_string(i), "hash " + std::to_string(i));
  }
  for (int i = 0; i < kContents; ++i) table.Retire("hash " + std::to_string(i));
  EXPECT_FALSE(table.Contains("unread 7"));
  EXPECT_EQ(table.TakeUnused().size(), size_t{kContents});
  EXPECT_EQ(table.num_key_visits(), 2 * kContents);
}

TEST(AdapterTableDeathTest, MisuseIsABug) {
  ContentTable table(1);
  ASSERT_TRUE(table.Publish(Source("aa")).ok());
  EXPECT_DEATH(table.Recycle(0), "in use");
  EXPECT_DEATH((void)table.Publish(Source("")), "base model");
  EXPECT_DEATH(
      {
        ContentTable gone(1);
        (void)gone.Publish(Source("aa"));
        new ContentLease(std::move(gone.Acquire("aa")).value());
      },
      "still live");
}

// What a lease names must stay, whatever is retired and published meanwhile.
TEST(ContentTableTest, LeasesPinContentAcrossThreads) {
  ContentTable table(8);
  std::atomic<bool> stop = false;
  std::atomic<int64_t> num_uses = 0;
  std::vector<std::thread> users;
  for (int i = 0; i < 4; ++i) {
    users.emplace_back([&, i] {
      for (int round = i; !stop; ++round) {
        const std::string wanted = std::to_string(round % 3);
        const Result<ContentLease> lease = table.Acquire(wanted);
        if (!lease.ok()) continue;
        for (int look = 0; look < 5; ++look) {
          EXPECT_EQ(table.SourceOf(lease->content()).key, wanted);
        }
        ++num_uses;
      }
    });
  }
  for (int round = 0; round < 2000 || num_uses < 100; ++round) {
    const std::string wanted = std::to_string(round % 3);
    table.Retire(wanted);
    for (const int32_t content : table.TakeUnused()) table.Recycle(content);
    (void)table.Publish(Source(wanted));
  }
  stop = true;
  for (std::thread& user : users) user.join();
  for (int wanted = 0; wanted < 3; ++wanted) table.Retire(std::to_string(wanted));
  for (const int32_t content : table.TakeUnused()) table.Recycle(content);
  EXPECT_EQ(table.num_contents(), 0);
}

std::vector<AdapterPart> Parts(const std::vector<std::pair<std::string, float>>& parts) {
  std::vector<AdapterPart> list;
  for (const auto& [key, weight] : parts) {
    list.push_back({.path = "", .hash = "", .key = key, .weight = weight});
  }
  return list;
}

TEST(ContentTableTest, ASumIsOneContentWhateverTheOrder) {
  ContentTable table(2);
  ASSERT_TRUE(table.Publish(Source("aa", "aa")).ok());
  ASSERT_TRUE(table.Publish(Source("bb", "bb")).ok());
  ContentLease sum = *table.AcquireSum(Parts({{"bb", 0.5f}, {"aa", 1.0f}}), "");
  EXPECT_EQ(table.AcquireSum(Parts({{"aa", 1.0f}, {"bb", 0.5f}}), "")->content(), sum.content());
  EXPECT_NE(table.AcquireSum(Parts({{"aa", 1.0f}, {"bb", 0.25f}}), "")->content(), sum.content());
  EXPECT_NE(table.AcquireSum(Parts({{"aa", 0.5f}, {"bb", 1.0f}}), "")->content(), sum.content());
  EXPECT_NE(table.AcquireSum(Parts({{"aa", 1.0f}}), "")->content(), table.Acquire("aa")->content());
  EXPECT_EQ(table.AcquireSum(Parts({{"aa", 1.0f}, {"cc", 1.0f}}), "").status().code(),
            StatusCode::kNotFound);
  const AdapterSource source = table.SourceOf(sum.content());
  ASSERT_EQ(source.parts.size(), 2u);
  EXPECT_EQ(source.parts[0].path, "/adapters/aa");
  EXPECT_EQ(source.parts[0].hash, "aa");
  EXPECT_EQ(source.parts[1].path, "/adapters/bb");
  EXPECT_EQ(source.parts[1].weight, 0.5f);
  EXPECT_EQ(source.path, "/adapters/aa and /adapters/bb");
  EXPECT_EQ(source.hash, source.key) << "all parts are known";
  EXPECT_EQ(source.hash.size(), 64u);
  ASSERT_TRUE(table.SetPath("bb", "/elsewhere/bb"));
  EXPECT_EQ(table.SourceOf(sum.content()).parts[1].path, "/elsewhere/bb");
  EXPECT_FALSE(table.Publish(Source("cc")).ok()) << "two are listed, whatever sums there are";
}

TEST(ContentTableTest, ASumOfUnreadPartsHasNoHash) {
  ContentTable table(2);
  ASSERT_TRUE(table.Publish(Source("unread a")).ok());
  ASSERT_TRUE(table.Publish(Source("bb", "bb")).ok());
  const ContentLease sum = *table.AcquireSum(Parts({{"unread a", 2.0f}, {"bb", 1.0f}}), "");
  EXPECT_EQ(table.SourceOf(sum.content()).hash, "");
  table.Identify("unread a", "aa");
  const ContentLease known = *table.AcquireSum(Parts({{"aa", 2.0f}, {"bb", 1.0f}}), "");
  const AdapterSource source = table.SourceOf(known.content());
  EXPECT_EQ(source.hash, source.key);
  EXPECT_EQ(table.AcquireSum(Parts({{"unread a", 2.0f}, {"bb", 1.0f}}), "")->content(),
            known.content());
  EXPECT_EQ(table.SourceOf(sum.content()).parts[1].hash, "aa") << "by now it is known";
}

TEST(ContentTableTest, ASumGoesWithTheFirstOfItsParts) {
  ContentTable table(2);
  ASSERT_TRUE(table.Publish(Source("aa", "aa")).ok());
  ASSERT_TRUE(table.Publish(Source("bb", "bb")).ok());
  ContentLease sum = *table.AcquireSum(Parts({{"aa", 0.5f}, {"bb", 0.5f}}), "");
  const int32_t content = sum.content();
  const int32_t part = table.Acquire("aa")->content();
  table.Retire("aa");
  EXPECT_TRUE(table.TakeUnused().empty()) << "a request has the sum, and the sum its parts";
  EXPECT_EQ(table.SourceOf(content).parts.size(), 2u);
  sum.Release();
  EXPECT_EQ(table.TakeUnused(), std::vector<int32_t>{content});
  table.Recycle(content);
  EXPECT_EQ(table.TakeUnused(), std::vector<int32_t>{part});
  table.Recycle(part);
  EXPECT_EQ(table.num_contents(), 1);
  EXPECT_TRUE(table.Contains("bb"));
}

TEST(ContentTableTest, TheSumThatWentUnusedLongestMakesPlace) {
  ContentTable table(1, /*sums_max=*/2);
  ASSERT_TRUE(table.Publish(Source("aa", "aa")).ok());
  const auto acquire = [&](float weight) { return table.AcquireSum(Parts({{"aa", weight}}), ""); };
  ContentLease first = *acquire(1.0f);
  ContentLease second = *acquire(2.0f);
  const int32_t oldest = first.content();
  EXPECT_EQ(acquire(3.0f).status().code(), StatusCode::kResourceExhausted);
  first.Release();
  second.Release();
  EXPECT_TRUE(acquire(2.0f).ok());
  EXPECT_TRUE(table.TakeUnused().empty()) << "both stay for who asks next";
  ContentLease third = *acquire(3.0f);
  EXPECT_EQ(table.TakeUnused(), std::vector<int32_t>{oldest});
  table.Recycle(oldest);
  EXPECT_EQ(acquire(1.0f)->content(), oldest) << "anew, instead of the other one";
}

// Requests that wait hold their sums, too.
TEST(ContentTableTest, ATenantsSumsLeaveRoomForOthers) {
  ContentTable table(1, /*sums_max=*/10);
  ASSERT_TRUE(table.Publish(Source("aa", "aa")).ok());
  std::vector<ContentLease> leases;
  float weight = 1.0f;
  const auto acquire = [&](const std::string& tenant) {
    Result<ContentLease> lease = table.AcquireSum(Parts({{"aa", weight += 0.5f}}), tenant);
    if (lease.ok()) leases.push_back(std::move(*lease));
    return lease.status();
  };
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(acquire("a").ok()) << i;
  const Status refused = acquire("a");
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("this tenant has 8"), std::string::npos) << refused.message();
  EXPECT_TRUE(acquire("b").ok());
  EXPECT_TRUE(acquire("c").ok());
  EXPECT_EQ(acquire("d").code(), StatusCode::kResourceExhausted) << "none is left";
  leases.erase(leases.begin(), leases.begin() + 4);
  EXPECT_TRUE(acquire("d").ok());
  EXPECT_TRUE(table.AcquireSum(Parts({{"aa", weight}}), "a").ok()) << "one that is there";
}

}  // namespace
}  // namespace graft
