// The registry in etcd: what every registry promises, and what this one has besides.
#include "cluster/etcd_registry.h"

#include "cluster/cluster_keys.h"
#include "etcd/etcd_testing.h"
#include "registry/adapter_registry_testing.h"

namespace graft {
namespace {

using registry_suite::Entry;
using testing::HasSubstr;

// A registry with an etcd of its own.
class OwnRegistry : public AdapterRegistry {
 public:
  OwnRegistry() {
    EXPECT_TRUE(ClusterStore::Init(*client_, "base", "test").ok());
    store_ = *ClusterStore::Open(*client_);
    registry_ = std::make_unique<EtcdRegistry>(*store_, "test");
  }
  Status Put(const AdapterInfo& entry, bool replace) override {
    return registry_->Put(entry, replace);
  }
  Status Remove(const std::string& name) override { return registry_->Remove(name); }
  Result<std::vector<AdapterInfo>> List() const override { return registry_->List(); }

  TestEtcd& etcd() { return etcd_; }
  ClusterStore& store() { return *store_; }
  EtcdRegistry& registry() { return *registry_; }

 private:
  TestEtcd etcd_;
  std::unique_ptr<EtcdClient> client_ = etcd_.Client();
  std::unique_ptr<ClusterStore> store_;
  std::unique_ptr<EtcdRegistry> registry_;
};

INSTANTIATE_TEST_SUITE_P(Etcd, AdapterRegistrySuite, testing::Values([] {
                           return std::unique_ptr<AdapterRegistry>(std::make_unique<OwnRegistry>());
                         }));

TEST(EtcdRegistryTest, KeepsVersionsAndRollsBack) {
  OwnRegistry own;
  EtcdRegistry& registry = own.registry();
  const int num_versions = static_cast<int>(kVersionsKept) + 3;
  for (int i = 1; i <= num_versions; ++i) {
    ASSERT_TRUE(registry.Put(Entry("a", "h" + std::to_string(i)), true).ok());
  }
  ASSERT_TRUE(registry.Put(Entry("a", "h" + std::to_string(num_versions)), true).ok());
  auto versions = *registry.Versions("a");
  ASSERT_EQ(versions.size(), kVersionsKept);
  EXPECT_EQ(versions.back().version, num_versions);
  EXPECT_EQ(versions.front().version, 4);

  const auto back = registry.RollBack("a", 5, "t");
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(back->entry, Entry("a", "h5"));
  EXPECT_EQ(*registry.List(), std::vector<AdapterInfo>{Entry("a", "h5")});
  EXPECT_THAT(registry.RollBack("a", 1, "t").status().message(), HasSubstr("kept are 4, 5"));
  EXPECT_EQ(registry.RollBack("b", 1, "t").status().code(), StatusCode::kNotFound);
  // The next change makes a new version.
  ASSERT_TRUE(registry.Put(Entry("a", "next"), true).ok());
  EXPECT_EQ(registry.Versions("a")->back().version, num_versions + 1);
  ASSERT_TRUE(registry.RemoveFor("a", "t2").ok());
  EXPECT_EQ(registry.Versions("a").status().code(), StatusCode::kNotFound);

  const auto audit = *own.store().ReadAudit(2);
  ASSERT_EQ(audit.size(), 2u);
  EXPECT_EQ(audit[1].line.change, "unload");
  EXPECT_EQ(audit[1].line.tenant, "t2");
  EXPECT_EQ(audit[0].line.subject, "a@" + std::to_string(num_versions + 1));
  EXPECT_EQ(audit[0].line.by, "test");
  EXPECT_LE(audit[0].unix_ns, audit[1].unix_ns);
}

TEST(EtcdRegistryTest, ForgetsATenantAndNobodyElse) {
  OwnRegistry own;
  EtcdRegistry& registry = own.registry();
  AdapterInfo theirs = Entry("shared", "h2");
  theirs.tenant = "other";
  ASSERT_TRUE(registry.Put(Entry("mine", "h1"), true).ok());
  ASSERT_TRUE(registry.Put(Entry("shared", "h1"), true).ok());
  ASSERT_TRUE(registry.Put(theirs, true).ok());
  ASSERT_TRUE(registry.SetTenant({"t", 2}).ok());
  const Json keys = {{{"key_sha256", "d1"}, {"tenant", "t"}},
                     {{"key_sha256", "d2"}, {"tenant", "other"}}};
  ASSERT_TRUE(registry.SetKeys(keys).ok());
  const auto forgotten = registry.ForgetTenant("t");
  ASSERT_TRUE(forgotten.ok()) << forgotten.status().ToString();
  EXPECT_EQ(forgotten->num_records, 5);  // a name, two versions, a key, the weight
  EXPECT_EQ(*registry.List(), std::vector<AdapterInfo>{theirs});
  EXPECT_EQ(registry.Versions("shared")->size(), 1u);
  EXPECT_EQ(registry.ForgetTenant("t").status().code(), StatusCode::kNotFound);
  const auto left = own.store().Commit({.then = {EtcdOperation::GetPrefix("graft/keys/")}});
  ASSERT_EQ(left->found[0].size(), 1u);
  EXPECT_EQ(left->found[0][0].key, ApiKeyKey("d2"));
}

TEST(EtcdRegistryTest, KeysAreGivenByTheirHash) {
  OwnRegistry own;
  EtcdRegistry& registry = own.registry();
  EXPECT_THAT(registry.SetKeys({{{"key", "secret"}, {"tenant", "t"}}}).message(),
              HasSubstr("key_sha256"));
  EXPECT_THAT(registry.SetKeys({{{"key_sha256", "d"}}, {{"key_sha256", "d"}}}).message(),
              HasSubstr("twice"));
  ASSERT_TRUE(registry.SetKeys({{{"key_sha256", "d1"}}, {{"key_sha256", "d2"}}}).ok());
  ASSERT_TRUE(registry.SetKeys({{{"key_sha256", "d2"}}, {{"key_sha256", "d3"}}}).ok());
  const auto keys = own.store().Commit({.then = {EtcdOperation::GetPrefix("graft/keys/")}});
  ASSERT_EQ(keys->found[0].size(), 2u);
  EXPECT_EQ(keys->found[0][0].key, ApiKeyKey("d2"));
}

TEST(EtcdRegistryTest, OfTooManyAuditLinesTheOldestGo) {
  OwnRegistry own;
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(own.Put(Entry("a" + std::to_string(i), "h"), true).ok());
  }
  EXPECT_TRUE(own.store().AuditTrims(9)->empty()) << "the first one tells of the cluster's making";
  const auto trims = own.store().AuditTrims(3);
  ASSERT_EQ(trims->size(), 6u);
  ASSERT_TRUE(own.store().Commit({.then = *trims}).ok());
  const auto left = own.store().ReadAudit(100);
  ASSERT_EQ(left->size(), 3u);
  EXPECT_EQ(left->front().line.subject, "a5@1");
  EXPECT_EQ(left->back().line.subject, "a7@1");
}

TEST(EtcdRegistryTest, WhatWasLearnedIsReplacedByNobodysLoad) {
  OwnRegistry own;
  AdapterInfo learned = Entry("ft:base:1", "h1");
  learned.owner = "t";
  ASSERT_TRUE(own.Put(learned, true).ok());
  for (const char* const hash : {"h1", "h2"}) {
    for (const bool replaces : {false, true}) {
      EXPECT_FALSE(own.Put(Entry("ft:base:1", hash), replaces).ok()) << hash << replaces;
    }
  }
  EXPECT_EQ(own.registry().List()->at(0).owner, "t");
  EXPECT_TRUE(own.Put(learned, true).ok());
}

TEST(EtcdRegistryTest, ThatThereWereKeysOutlivesThem) {
  OwnRegistry own;
  const auto is_noted = [&own] {
    return !own.store().Commit({.then = {EtcdOperation::Get(KeysRequiredKey())}})->found[0].empty();
  };
  EXPECT_FALSE(is_noted());
  ASSERT_TRUE(own.registry().SetKeys({{{"key_sha256", "d1"}, {"tenant", "t"}}}).ok());
  EXPECT_TRUE(is_noted());
  // As in a cluster with keys that an earlier version wrote.
  ASSERT_TRUE(own.store().Commit({.then = {EtcdOperation::Delete(KeysRequiredKey())}}).ok());
  ASSERT_TRUE(own.registry().ForgetTenant("t").ok());
  EXPECT_TRUE(is_noted());
  ASSERT_TRUE(own.registry().SetKeys(Json::array()).ok());
  EXPECT_TRUE(is_noted());
}

TEST(EtcdRegistryTest, WhileEtcdIsAwayChangesAreRefusedWithTheReason) {
  OwnRegistry own;
  ASSERT_TRUE(own.Put(Entry("a", "h"), true).ok());
  own.etcd().Kill();
  const Status away = own.Put(Entry("b", "h"), true);
  EXPECT_TRUE(away.code() == StatusCode::kUnavailable ||
              away.code() == StatusCode::kDeadlineExceeded);
  EXPECT_THAT(away.message(), HasSubstr("etcd at 127.0.0.1"));
  own.etcd().Start(/*keep_data=*/false);
  EXPECT_TRUE(Eventually(
      [&] { return own.Put(Entry("b", "h"), true).code() == StatusCode::kFailedPrecondition; }));
  EXPECT_THAT(own.Put(Entry("b", "h"), true).message(), HasSubstr("graft cluster restore"));
  EXPECT_THAT(ClusterStore::Open(*own.etcd().Client()).status().message(),
              HasSubstr("graft cluster init"));
}

// The connection broke while etcd had the change. The change's line in the audit log shows whether
// it was made.
TEST(EtcdRegistryTest, AChangeWhoseAnswerWasLostIsFoundOut) {
  OwnRegistry own;
  own.etcd().Pause();
  Status status;
  std::thread thread([&] { status = own.Put(Entry("a", "h"), false); });
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // past the first deadline
  own.etcd().Resume();
  thread.join();
  const auto entries = own.List();
  ASSERT_TRUE(entries.ok());
  EXPECT_EQ(status.ok(), entries->size() == 1);
}

}  // namespace
}  // namespace graft
