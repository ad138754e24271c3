// Elections against a real etcd, and what a leader decides.
#include "cluster/leader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster_keys.h"
#include "cluster/etcd_testing.h"
#include "cluster/leader_duties.h"

namespace graft {
namespace {

// Who leads, and who writes "mark" at its turns.
std::unique_ptr<Leader> Stand(ClusterStore& store, const std::string& id) {
  return std::make_unique<Leader>(
      store, Leader::Options{.id = id, .ttl_s = 1, .turn_ms = 50},
      [id] { return std::vector<EtcdOperation>{EtcdOperation::Put("graft/mark", id)}; });
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
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // longer than a term
  EXPECT_TRUE(first->leads());
  EXPECT_FALSE(second->leads());
  EXPECT_EQ(first->num_terms(), 1);
  first.reset();
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
  EXPECT_TRUE(Eventually([&] { return !first->leads(); }, std::chrono::seconds(3)));
  etcd_.Resume();
  EXPECT_TRUE(Eventually([&] { return first->leads(); }));
}

RunnerRecord RunnerWith(const std::string& id, int32_t running, std::vector<std::string> resident) {
  RunnerRecord runner;
  runner.id = id;
  runner.address = "h:1";
  runner.capacity_requests = 10;
  runner.running_requests = running;
  runner.resident = std::move(resident);
  return runner;
}

ClusterView ViewWith(std::map<std::string, Json> keys, std::vector<std::string> hashes) {
  auto registry = std::make_shared<RegistryView>();
  registry->keys = std::move(keys);
  for (const std::string& hash : hashes) {
    registry->adapters["n" + hash].entry = {.name = "n" + hash, .hash = hash};
  }
  ClusterView view;
  view.registry = registry;
  return view;
}

TEST(LeaderDutiesTest, SlicesMakeUpTheBudgetAndFollowWhatIsAsked) {
  ClusterView view =
      ViewWith({{"d", {{"requests_per_minute", 60}}}, {"free", {{"tenant", "t"}}}}, {});
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

TEST(LeaderDutiesTest, AnAdapterOnFullRunnersIsWantedOnceMore) {
  ClusterView view = ViewWith({}, {"a", "b", "c"});
  EXPECT_TRUE(WantedCopies(view).empty());
  view.runners["r1"] = RunnerWith("r1", 9, {"a"});
  view.runners["r2"] = RunnerWith("r2", 2, {"b", "old"});
  using Wanted = std::map<std::string, int32_t>;
  EXPECT_EQ(WantedCopies(view), (Wanted{{"a", 2}}));
  view.runners["r2"].draining = true;
  EXPECT_TRUE(WantedCopies(view).empty());  // there is no second one
}

TEST(LeaderDutiesTest, WritesWhatHasChanged) {
  ClusterView view = ViewWith({{"d", {{"requests_per_minute", 60}}}}, {"a"});
  view.runners["r1"] = RunnerWith("r1", 9, {"a"});
  view.runners["r2"] = RunnerWith("r2", 1, {});
  view.frontends["f1"] = {"f1", "", {}};
  EXPECT_EQ(LeaderWrites(view).size(), 2u);
  view.leader.wanted = WantedCopies(view);
  view.leader.slices = LendSlices(view);
  EXPECT_TRUE(LeaderWrites(view).empty());
}

}  // namespace
}  // namespace graft
