// Elections against a real etcd, and what a leader decides.
#include "cluster/leader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster_keys.h"
#include "etcd/etcd_testing.h"

namespace graft {
namespace {

constexpr int kTermS = 4;  // renewed in time by a machine that is busy

// A candidate that writes "mark" at its turns once it leads.
std::unique_ptr<Leader> Stand(ClusterStore& store, const std::string& id) {
  return std::make_unique<Leader>(
      store, Leader::Options{.id = id, .ttl_s = kTermS, .turn_ms = 50}, [id](int64_t lease_id) {
        return std::vector<EtcdOperation>{EtcdOperation::Put("graft/mark", id),
                                          EtcdOperation::Put("graft/lent", id, lease_id)};
      });
}

std::string ValueOf(EtcdClient& client, const std::string& key) {
  const auto outcome = client.Commit({.then = {EtcdOperation::Get(key)}});
  return outcome.ok() && !outcome->found[0].empty() ? outcome->found[0][0].value : "";
}

class LeaderTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ClusterStore::Init(*client_, "base", "test").ok());
    store_ = *ClusterStore::Open(*client_);
  }

  TestEtcd etcd_;
  std::unique_ptr<EtcdClient> client_ = etcd_.Client();
  std::unique_ptr<ClusterStore> store_;
};

TEST_F(LeaderTest, OneLeadsAndTheNextFollows) {
  auto first = Stand(*store_, "first");
  ASSERT_TRUE(Eventually([&] { return first->leads(); }));
  auto second = Stand(*store_, "second");
  ASSERT_TRUE(Eventually([&] { return ValueOf(*client_, "graft/mark") == "first"; }));
  std::this_thread::sleep_for(std::chrono::seconds(kTermS + 1));  // longer than a term
  EXPECT_TRUE(first->leads());
  EXPECT_FALSE(second->leads());
  EXPECT_EQ(first->num_terms(), 1);
  EXPECT_EQ(ValueOf(*client_, "graft/lent"), "first");
  first.reset();
  // What was written under its lease is over with its place.
  EXPECT_TRUE(Eventually([&] { return ValueOf(*client_, "graft/lent") != "first"; }));
  EXPECT_TRUE(Eventually([&] { return second->leads(); }));
  EXPECT_TRUE(Eventually([&] { return ValueOf(*client_, "graft/mark") == "second"; }));
}

// A process of its own is stopped while it leads: another is elected, and the first one's next
// write is refused by etcd though it does not know yet.
TEST_F(LeaderTest, AStoppedLeaderComesBackAndWritesNothing) {
  auto first = Stand(*store_, "first");
  ASSERT_TRUE(Eventually([&] { return first->leads(); }));
  EtcdTransaction usurp;
  usurp.then = {EtcdOperation::Delete(LeaderKey())};
  ASSERT_TRUE(client_->Commit(usurp).ok());
  usurp.then = {EtcdOperation::Put(LeaderKey(), "other"),
                EtcdOperation::Put("graft/mark", "other")};
  usurp.compares = {EtcdCompare::Absent(LeaderKey())};
  bool usurped = false;
  ASSERT_TRUE(Eventually([&] {
    const auto outcome = client_->Commit(usurp);
    usurped = outcome.ok() && outcome->succeeded;
    if (!usurped) {  // it was elected again before
      EXPECT_TRUE(client_->Commit({.then = {EtcdOperation::Delete(LeaderKey())}}).ok());
    }
    return usurped;
  }));
  ASSERT_TRUE(Eventually([&] { return !first->leads(); }));
  EXPECT_EQ(ValueOf(*client_, "graft/mark"), "other");
  EXPECT_EQ(ValueOf(*client_, LeaderKey()), "other");
}

TEST_F(LeaderTest, WhoCannotRenewDoesNotBelieveThatItLeads) {
  auto first = Stand(*store_, "first");
  ASSERT_TRUE(Eventually([&] { return first->leads(); }));
  etcd_.Pause();
  EXPECT_TRUE(Eventually([&] { return !first->leads(); }));
  etcd_.Resume();
  EXPECT_TRUE(Eventually([&] { return first->leads(); }));
}

ClusterView ViewWith(std::map<std::string, Json> keys) {
  auto registry = std::make_shared<RegistryView>();
  registry->keys = std::move(keys);
  ClusterView view;
  view.registry = registry;
  return view;
}

TEST(LeaderDutiesTest, SlicesMakeUpTheBudgetAndFollowWhatIsAsked) {
  ClusterView view = ViewWith({{"d", {{"requests_per_minute", 60}}}, {"free", {{"tenant", "t"}}}});
  view.frontends["f1"] = {"f1", "", {{"d", 90.0}}};
  view.frontends["f2"] = {"f2", "", {{"d", 30.0}}};
  auto slices = LendSlices(view);
  EXPECT_DOUBLE_EQ(slices["f1"]["d"], 15 + 22.5);
  EXPECT_DOUBLE_EQ(slices["f2"]["d"], 15 + 7.5);
  EXPECT_FALSE(slices["f1"].contains("free"));
  view.frontends["f1"].demand.clear();
  view.frontends["f2"].demand.clear();
  slices = LendSlices(view);
  EXPECT_DOUBLE_EQ(slices["f1"]["d"], 30);
  EXPECT_DOUBLE_EQ(slices["f2"]["d"], 30);
}

TEST(LeaderDutiesTest, TokensAndTenantsHaveBudgetsOfTheirOwn) {
  const Json limits = {{"requests_per_minute", 100}, {"tokens_per_minute", 8000}};
  ClusterView view = ViewWith({{"d", {{"tenant", "t"}, {"tokens_per_minute", 600}}},
                               {"e", {{"tenant", "t"}, {"tenant_limits", limits}}}});
  view.frontends["f1"] = {"f1", "", {{"d:tokens", 90.0}}};
  view.frontends["f2"] = {"f2", "", {{"tenant:t:tokens", 5.0}}};
  auto slices = LendSlices(view);
  using Slice = std::map<std::string, double>;
  EXPECT_EQ(slices["f1"], (Slice{{"d:tokens", 450}, {"tenant:t", 50}, {"tenant:t:tokens", 2000}}));
  EXPECT_EQ(slices["f2"], (Slice{{"d:tokens", 150}, {"tenant:t", 50}, {"tenant:t:tokens", 6000}}));
}

TEST(LeaderDutiesTest, WithoutALeaderThePartsAreEqual) {
  ClusterView view = ViewWith({{"d", {{"requests_per_minute", 60}}}, {"free", {{"tenant", "t"}}}});
  using Slice = std::map<std::string, double>;
  EXPECT_EQ(EvenSlice(view), (Slice{{"d", 60}}));  // the frontend that asks counts as one
  view.frontends["f1"] = {"f1", "", {{"d", 90.0}}};
  view.frontends["f2"] = {"f2", "", {}};
  EXPECT_EQ(EvenSlice(view), (Slice{{"d", 30}}));
}

TEST(LeaderDutiesTest, AFrontendUsesItsPartWhileThatCannotBeAnothers) {
  using Slice = std::map<std::string, double>;
  ClusterView view = ViewWith({{"d", {{"requests_per_minute", 60}}},
                               {"new", {{"requests_per_minute", 10}}},
                               {"free", {{"tenant", "t"}}}});
  view.frontends["f1"] = {"f1", "", {{"d", 90.0}}};
  view.frontends["f2"] = {"f2", "", {}};
  const Slice even = {{"d", 30}, {"new", 5}};
  EXPECT_EQ(SharesOf(view, "f1", true), even);  // no leader has lent so far
  // "gone" is a key that was taken away since.
  view.leader.slices = {{"f1", {{"d", 45}, {"gone", 7}}}, {"f2", {{"d", 15}, {"gone", 7}}}};
  EXPECT_EQ(SharesOf(view, "f1", true), (Slice{{"d", 45}, {"new", 5}}));
  EXPECT_EQ(SharesOf(view, "f2", true), (Slice{{"d", 15}, {"new", 5}}));
  EXPECT_EQ(SharesOf(view, "f3", true), even);   // it came after the leader's last turn
  EXPECT_EQ(SharesOf(view, "f1", false), even);  // its lease may be over
  view.away = UnavailableError("etcd is away");
  EXPECT_EQ(SharesOf(view, "f1", true), even);
}

TEST(LeaderDutiesTest, WhatADeadFrontendHadGoesToTheOthers) {
  ClusterView view = ViewWith({{"d", {{"requests_per_minute", 60}}}});
  view.frontends["f1"] = {"f1", "", {{"d", 90.0}}};
  view.frontends["f2"] = {"f2", "", {{"d", 30.0}}};
  view.leader.slices = LendSlices(view);
  view.frontends.erase("f1");
  EXPECT_EQ(LeaderWrites(view, 7).size(), 1u);
  EXPECT_DOUBLE_EQ(LendSlices(view)["f2"]["d"], 60);
}

TEST(LeaderDutiesTest, TellsHowManyRunnersAreWantedWheneverThatChanges) {
  ClusterView view = ViewWith({});
  ScaleHint hint = {.runners = 2, .runners_wanted = 3};
  const auto writes = HintWrites(view, hint, 7);
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].key, HintKey());
  EXPECT_EQ(writes[0].lease, 7);
  EXPECT_EQ(*DecodeScaleHint(writes[0].value), hint);
  view.leader.hint = hint;
  EXPECT_TRUE(HintWrites(view, hint, 7).empty());
  hint.spare = {"h:1"};
  EXPECT_EQ(HintWrites(view, hint, 7).size(), 1u);
}

TEST(LeaderDutiesTest, WritesWhatHasChangedUnderItsLease) {
  ClusterView view = ViewWith({{"d", {{"requests_per_minute", 60}}}});
  view.frontends["f1"] = {"f1", "", {}};
  const auto writes = LeaderWrites(view, 7);
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].lease, 7);
  view.leader.slices = LendSlices(view);
  EXPECT_TRUE(LeaderWrites(view, 7).empty());
}

TEST(LeaderDutiesTest, KeysThatAFormerVersionSetAreAskedForForGood) {
  ClusterMirror mirror;
  const EtcdKeyValue key = {ApiKeyKey("d"), R"({"key_sha256": "d"})"};
  mirror.SetAll({key}, 5, /*set_back=*/false);
  const auto writes = LeaderWrites(*mirror.View(OkStatus()), 7);
  ASSERT_EQ(writes.size(), 1u);
  EXPECT_EQ(writes[0].key, KeysRequiredKey());
  EXPECT_EQ(writes[0].lease, 0) << "it outlives who wrote it";
  const EtcdKeyValue record = {writes[0].key, writes[0].value};
  mirror.SetAll({key, record}, 6, /*set_back=*/false);
  EXPECT_TRUE(LeaderWrites(*mirror.View(OkStatus()), 7).empty());
  mirror.SetAll({}, 7, /*set_back=*/false);
  EXPECT_EQ(LeaderWrites(*mirror.View(OkStatus()), 7).size(), 1u) << "whoever took it away";
}

}  // namespace
}  // namespace graft
