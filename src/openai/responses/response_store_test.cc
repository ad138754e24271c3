#include "openai/responses/response_store.h"

#include <gtest/gtest.h>

#include "openai/responses/response_plan.h"

namespace graft {
namespace {

StoredResponse Response(const std::string& id, const std::string& previous_id = "",
                        size_t bytes = 100) {
  return {.id = id,
          .previous_id = previous_id,
          .model = "m",
          .json = std::string(bytes, 'x'),
          .input = "[]",
          .output = "[]"};
}

class ResponseStoreTest : public ::testing::Test {
 protected:
  void Advance(int64_t seconds) { clock_.AdvanceNs(seconds * 1'000'000'000); }

  ManualClock clock_;
};

TEST_F(ResponseStoreTest, TenantsSeeTheirOwnAlone) {
  ResponseStore store(clock_, {});
  store.Put("a", Response("r1"));
  EXPECT_NE(store.Find("a", "r1"), nullptr);
  EXPECT_EQ(store.Find("b", "r1"), nullptr);
  EXPECT_FALSE(store.Delete("b", "r1"));
  EXPECT_TRUE(store.Delete("a", "r1"));
  EXPECT_FALSE(store.Delete("a", "r1"));
  EXPECT_EQ(store.Find("a", "r1"), nullptr);
  EXPECT_EQ(store.num_responses(), 0);
  EXPECT_EQ(store.num_bytes(), 0);
}

TEST_F(ResponseStoreTest, AConversationIsItsTurnsInOrder) {
  ResponseStore store(clock_, {});
  store.Put("a", Response("r1"));
  store.Put("a", Response("r2", "r1"));
  store.Put("a", Response("other"));
  store.Put("a", Response("r3", "r2"));
  auto turns = store.Conversation("a", "r3", 3);
  ASSERT_TRUE(turns.ok()) << turns.error().message;
  ASSERT_EQ(turns->size(), 3u);
  EXPECT_EQ((*turns)[0]->id, "r1");
  EXPECT_EQ((*turns)[2]->id, "r3");
  auto none = store.Conversation("a", "", 3);
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
  EXPECT_FALSE(store.Conversation("a", "r3", 2).ok());
  EXPECT_EQ(store.Conversation("b", "r3", 3).error().code, "previous_response_not_found");
  store.Delete("a", "r1");
  const auto broken = store.Conversation("a", "r3", 3);
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("'r1', which is not stored any more"), std::string::npos);
}

TEST_F(ResponseStoreTest, TheOneUsedLongestAgoGoesFirst) {
  ResponseStore store(clock_, {.tenant_responses_max = 2});
  store.Put("a", Response("r1"));
  store.Put("a", Response("r2"));
  store.Put("b", Response("b1"));
  EXPECT_NE(store.Find("a", "r1"), nullptr);
  store.Put("a", Response("r3"));
  EXPECT_EQ(store.Find("a", "r2"), nullptr);
  EXPECT_NE(store.Find("a", "r1"), nullptr);
  EXPECT_NE(store.Find("a", "r3"), nullptr);
  EXPECT_NE(store.Find("b", "b1"), nullptr);
}

TEST_F(ResponseStoreTest, WhoHoldsTheMostMakesRoom) {
  ResponseStore store(clock_, {.bytes_max = 10'000});
  store.Put("small", Response("s1", "", 1000));
  for (int i = 0; i < 20; ++i) store.Put("large", Response("l" + std::to_string(i), "", 1000));
  EXPECT_NE(store.Find("small", "s1"), nullptr);
  EXPECT_EQ(store.Find("large", "l0"), nullptr);
  EXPECT_NE(store.Find("large", "l19"), nullptr);
  EXPECT_LE(store.num_bytes(), 10'000);
  EXPECT_GT(store.num_bytes(), 8'000);
  store.Put("large", Response("huge", "", 20'000));
  EXPECT_EQ(store.Find("large", "huge"), nullptr);
  EXPECT_NE(store.Find("large", "l19"), nullptr);
}

TEST_F(ResponseStoreTest, AgeCountsFromTheLastUse) {
  ResponseStore store(clock_, {.age_seconds_max = 100});
  store.Put("a", Response("r1"));
  store.Put("a", Response("r2"));
  store.Put("b", Response("b1"));
  Advance(80);
  EXPECT_NE(store.Find("a", "r1"), nullptr);
  Advance(80);
  EXPECT_EQ(store.Find("a", "r2"), nullptr);
  EXPECT_NE(store.Find("a", "r1"), nullptr);
  EXPECT_EQ(store.num_responses(), 2);
  store.Put("a", Response("r4"));  // sweeps b's, which were not used
  EXPECT_EQ(store.num_responses(), 2);
}

TEST_F(ResponseStoreTest, ThatIsOffKeepsNothing) {
  ResponseStore store(clock_, {.tenant_responses_max = 0});
  EXPECT_FALSE(store.enabled());
  store.Put("a", Response("r1"));
  EXPECT_EQ(store.Find("a", "r1"), nullptr);
}

// Against a list that is searched from end to end.
TEST_F(ResponseStoreTest, CountsAndBytesStayThoseOfAllEntries) {
  ResponseStore store(clock_, {.tenant_responses_max = 5, .bytes_max = 20'000});
  uint32_t state = 7;
  int next_id = 0;
  for (int i = 0; i < 2000; ++i) {
    state = state * 1664525 + 1013904223;
    const std::string tenant(1, static_cast<char>('a' + (state >> 8) % 4));
    const std::string id = "r" + std::to_string((state >> 12) % static_cast<uint32_t>(next_id + 1));
    if (state % 3 == 0) {
      store.Delete(tenant, id);
    } else {
      store.Put(tenant, Response("r" + std::to_string(next_id++), "", (state >> 16) % 3000));
    }
    int64_t count = 0;
    for (int j = std::max(0, next_id - 400); j < next_id && i % 50 == 0; ++j) {
      for (const char* owner : {"a", "b", "c", "d"}) {
        count += store.Find(owner, "r" + std::to_string(j)) != nullptr ? 1 : 0;
      }
    }
    if (i % 50 == 0) {
      EXPECT_EQ(store.num_responses(), count);
    }
    EXPECT_LE(store.num_responses(), 20);
    EXPECT_LE(store.num_bytes(), 20'000);
    EXPECT_EQ(store.num_bytes() == 0, store.num_responses() == 0);
  }
}

// By which the work of going on is queued.
TEST(StoredBytesTest, AreThoseOfTheWholeConversation) {
  ManualClock clock;
  ResponseStore store(clock, {});
  store.Put("t", {.id = "a", .input = std::string(100, 'i'), .output = std::string(20, 'o')});
  store.Put("t", {.id = "b", .previous_id = "a", .input = "[]", .output = "[1]"});
  const RequestLimits limits;
  const auto bytes_of = [&](const std::string& tenant, const std::string& body) {
    return StoredBytes(&store, tenant, limits, body);
  };
  EXPECT_EQ(bytes_of("t", R"({"previous_response_id":"a"})"), 120);
  EXPECT_EQ(bytes_of("t", R"({"previous_response_id":"b","input":"x"})"), 125);
  EXPECT_EQ(bytes_of("t", R"({"previous\u005fresponse_id":"b"})"), 125);
  EXPECT_EQ(bytes_of("other", R"({"previous_response_id":"b"})"), 0);
  for (const char* body : {"{}", "", "[", "[]", R"({"previous_response_id":7})"}) {
    EXPECT_EQ(bytes_of("t", body), 0) << body;
  }
}

}  // namespace
}  // namespace graft
