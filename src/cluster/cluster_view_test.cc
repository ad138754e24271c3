// Records and the view that is made of them, without etcd.
#include "cluster/cluster_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "cluster/cluster_keys.h"

namespace graft {
namespace {

using testing::HasSubstr;

RunnerRecord FullRunner() {
  RunnerRecord runner;
  runner.id = "r1";
  runner.address = "10.0.0.1:7000";
  runner.arithmetic_id = "avx512/bf16";
  runner.base_id = "base";
  runner.process = {"host", 41};
  runner.protocol = 3;
  runner.capacity_requests = 32;
  runner.running_requests = 5;
  runner.waiting_requests = 2;
  runner.pages = int64_t{1} << 33;
  runner.free_pages = 17;
  runner.draining = true;
  runner.learns = true;
  runner.num_resident = 2;
  return runner;
}

EtcdChange Put(const std::string& key, const std::string& text) { return {{key, text}, false}; }
EtcdChange Erase(const std::string& key) { return {{key}, true}; }

AdapterVersion Adapter(const std::string& name, int64_t version) {
  AdapterVersion adapter;
  adapter.version = version;
  adapter.entry = {
      .name = name, .hash = "h" + std::to_string(version), .path = "/a", .tenant = "t"};
  return adapter;
}

TEST(ClusterRecordsTest, ComeBackAsTheyWere) {
  EXPECT_EQ(*DecodeRunnerRecord(EncodeRecord(FullRunner())), FullRunner());
  const ClusterRecord cluster = {"id", "base", 17};
  EXPECT_EQ(*DecodeClusterRecord(EncodeRecord(cluster)), cluster);
  const FrontendRecord frontend = {"f", "h:1", {{"digest", 2.5}}, {"host", 17}, "h:2", 7};
  EXPECT_EQ(*DecodeFrontendRecord(EncodeRecord(frontend)), frontend);
  EXPECT_EQ(*DecodeAdapterVersion(EncodeRecord(Adapter("a", 3))), Adapter("a", 3));
  AdapterVersion learned = Adapter("ft:base:1", 1);
  learned.entry.owner = "";
  EXPECT_EQ(*DecodeAdapterVersion(EncodeRecord(learned)), learned);
  const ScaleHint hint = {.runners = 3,
                          .runners_wanted = 2,
                          .startup_seconds = 0.1,
                          .spare = {"h:3"},
                          .consolidates = true};
  EXPECT_EQ(*DecodeScaleHint(EncodeRecord(hint)), hint);
  EXPECT_EQ(DecodeScaleHint(R"({"runners":3})").status().code(), StatusCode::kDataLoss);
  const TenantRecord tenant = {"t", 2.5};
  EXPECT_EQ(*DecodeTenantRecord(EncodeRecord(tenant)), tenant);
}

TEST(ClusterRecordsTest, FieldsOfLaterVersionsAreSkippedAndNonsenseIsRefused) {
  const auto later = DecodeRunnerRecord(R"({"id":"r","address":"h:1","mood":{"x":1},"pages":"9"})");
  ASSERT_TRUE(later.ok());
  EXPECT_EQ(later->pages, 0);
  EXPECT_EQ(DecodeRunnerRecord("{}").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeRunnerRecord(R"({"id":"r"})").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeRunnerRecord("[1]").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(DecodeAdapterVersion("nonsense").status().code(), StatusCode::kDataLoss);
}

TEST(ClusterMirrorTest, WhatIsWantedAndWhoGoesIsSeenWhileItStands) {
  ClusterMirror mirror;
  mirror.Apply({Put(HintKey(), EncodeRecord(ScaleHint{.runners_wanted = 4})),
                Put(LeavingKey("10.0.0.1:7000"), "77")},
               5);
  auto view = mirror.View(OkStatus());
  ASSERT_TRUE(view->leader.hint.has_value());
  EXPECT_EQ(view->leader.hint->runners_wanted, 4);
  EXPECT_EQ(view->leaving.at("10.0.0.1:7000"), "77");
  EXPECT_TRUE(mirror.LastingRecords().empty()) << "nobody restores what only the living have";
  mirror.Apply({Put(HintKey(), "nonsense")}, 6);
  EXPECT_EQ(mirror.View(OkStatus())->leader.hint->runners_wanted, 4) << "the former one stays";
  mirror.Apply({Erase(HintKey()), Erase(LeavingKey("10.0.0.1:7000"))}, 7);
  view = mirror.View(OkStatus());
  EXPECT_FALSE(view->leader.hint.has_value());
  EXPECT_TRUE(view->leaving.empty());
}

// It is written twice a second, and etcd keeps each until it is compacted.
TEST(ClusterRecordsTest, ARunnersRecordIsShort) {
  EXPECT_LE(EncodeRecord(FullRunner()).size(), 512u);
}

TEST(ClusterKeysTest, NoNameIsAnothersPrefix) {
  for (const std::string name : {"a", "a/0000000001", "a%2F", "\xc3\xa4", "x y"}) {
    EXPECT_EQ(NameInKey(AdapterKey(name), kAdaptersPrefix), name);
  }
  EXPECT_FALSE(HasPrefix(VersionKey("a/b", 1), VersionsKey("a")));
  EXPECT_LT(VersionKey("a", 9), VersionKey("a", 10));
}

TEST(ClusterMirrorTest, FollowsChangesAndKeepsWhatItCannotRead) {
  ClusterMirror mirror;
  mirror.Apply({Put(RunnerKey("r1"), EncodeRecord(FullRunner())),
                Put(AdapterKey("a"), EncodeRecord(Adapter("a", 1))),
                Put(TenantKey("t"), EncodeRecord(TenantRecord{"t", 3})),
                Put(ApiKeyKey("d"), R"({"key_sha256":"d","tenant":"t"})"),
                Put(SlicesKey(), R"({"f1":{"d":30}})"), Put(LeaderKey(), "f1")},
               7);
  const auto first = mirror.View(OkStatus());
  EXPECT_EQ(first->revision, 7);
  EXPECT_EQ(first->runners.at("r1"), FullRunner());
  EXPECT_EQ(first->registry->adapters.at("a"), Adapter("a", 1));
  EXPECT_EQ(first->registry->tenants.at("t").weight, 3);
  EXPECT_EQ(first->KeysList().size(), 1u);
  EXPECT_EQ(first->leader.slices.at("f1").at("d"), 30);
  EXPECT_EQ(first->leader.leader_id, "f1");

  mirror.Apply({Put(AdapterKey("a"), "nonsense"), Put(RunnerKey("r1"), "nonsense"),
                Put(RunnerKey("r2"), "nonsense")},
               8);
  EXPECT_EQ(mirror.View(OkStatus())->registry->adapters.at("a"), Adapter("a", 1));
  EXPECT_EQ(mirror.View(OkStatus())->runners.size(), 1u);
  mirror.Apply({Erase(AdapterKey("a")), Erase(RunnerKey("r1")), Erase(TenantKey("t")),
                Erase(ApiKeyKey("d")), Erase(LeaderKey()), Erase(SlicesKey())},
               9);
  const auto last = mirror.View(UnavailableError("away"));
  EXPECT_TRUE(last->runners.empty());
  EXPECT_TRUE(last->registry->adapters.empty());
  EXPECT_TRUE(last->registry->keys.empty());
  EXPECT_EQ(last->leader.leader_id, "");
  EXPECT_TRUE(last->leader.slices.empty());
  EXPECT_EQ(last->away.message(), "away");
  // A process that has a view keeps it.
  EXPECT_EQ(first->registry->adapters.size(), 1u);
}

TEST(ClusterMirrorTest, KnowsThatThereWereKeys) {
  ClusterMirror mirror;
  mirror.Apply({Put(AdapterKey("a"), EncodeRecord(Adapter("a", 1)))}, 6);
  EXPECT_FALSE(mirror.View(OkStatus())->registry->requires_key);
  mirror.Apply({Put(ApiKeyKey("d"), R"({"key_sha256":"d","tenant":"t"})")}, 7);
  mirror.Apply({Erase(ApiKeyKey("d"))}, 8);
  EXPECT_TRUE(mirror.View(OkStatus())->registry->requires_key);
  // One that has seen the record alone, also by a view's file, and what is restored from it.
  ClusterMirror fresh;
  fresh.SetAll({{KeysRequiredKey(), "true"}}, 9, /*set_back=*/false);
  const Result<ClusterMirror> read = ClusterMirror::Decode(fresh.Encode());
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(read->View(OkStatus())->registry->requires_key);
  EXPECT_TRUE(read->LastingRecords().contains(KeysRequiredKey()));
}

TEST(ClusterMirrorTest, KnowsTheContentsOfNamesAndOfTheirVersions) {
  ClusterMirror mirror;
  mirror.Apply(
      {Put(AdapterKey("a"), EncodeRecord(Adapter("a", 2))),
       Put(VersionKey("a", 1), EncodeRecord(Adapter("a", 1))),
       Put(VersionKey("a", 2), EncodeRecord(Adapter("a", 2))),
       Put(VersionKey("b", 7), EncodeRecord(Adapter("b", 7))), Put(VersionKey("b", 8), "nonsense")},
      1);
  EXPECT_EQ(mirror.Contents(), (std::set<std::string>{"h1", "h2", "h7"}));
  mirror.Apply({Erase(VersionKey("a", 1)), Erase(VersionKey("b", 7))}, 2);
  EXPECT_EQ(mirror.Contents(), std::set<std::string>{"h2"});
  EXPECT_EQ(ClusterMirror::Decode(mirror.Encode())->Contents(), std::set<std::string>{"h2"});
}

TEST(ClusterMirrorTest, WhereEtcdWasSetBackRunnersMayComeBack) {
  RunnerRecord second = FullRunner();
  second.id = "r2";
  ClusterMirror mirror;
  mirror.Apply(
      {Put(RunnerKey("r1"), EncodeRecord(FullRunner())), Put(RunnerKey("r2"), EncodeRecord(second)),
       Put(AdapterKey("a"), EncodeRecord(Adapter("a", 1)))},
      100);
  mirror.SetAll({{ClusterKey(), "c"}}, 5, /*set_back=*/true);
  EXPECT_EQ(mirror.View(OkStatus())->runners.size(), 2u);
  EXPECT_TRUE(mirror.View(OkStatus())->registry->adapters.empty());
  mirror.Apply({Put(RunnerKey("r2"), EncodeRecord(second))}, 6);
  EXPECT_TRUE(mirror.LetGo());
  EXPECT_EQ(mirror.View(OkStatus())->runners.count("r2"), 1u);
  EXPECT_EQ(mirror.View(OkStatus())->runners.size(), 1u);
  EXPECT_FALSE(mirror.LetGo());
  mirror.SetAll({}, 7, /*set_back=*/false);
  EXPECT_TRUE(mirror.View(OkStatus())->runners.empty());
}

// The connection broke again within the time that they have: the next reading is of the same etcd.
TEST(ClusterMirrorTest, ASecondReadingTakesNobodysTimeToComeBack) {
  ClusterMirror mirror;
  mirror.Apply({Put(RunnerKey("r1"), EncodeRecord(FullRunner()))}, 100);
  mirror.SetAll({{ClusterKey(), "c"}}, 5, /*set_back=*/true);
  mirror.SetAll({{ClusterKey(), "c"}}, 6, /*set_back=*/false);
  EXPECT_EQ(mirror.View(OkStatus())->runners.size(), 1u);
  // One that has come back, and is gone at a later reading, was given its time.
  mirror.SetAll({{ClusterKey(), "c"}, {RunnerKey("r1"), EncodeRecord(FullRunner())}}, 7, false);
  mirror.SetAll({{ClusterKey(), "c"}}, 8, /*set_back=*/false);
  EXPECT_TRUE(mirror.View(OkStatus())->runners.empty());
  EXPECT_FALSE(mirror.LetGo());
}

TEST(ClusterMirrorTest, IsWrittenAndReadBack) {
  const std::string path =
      std::filesystem::temp_directory_path() / ("graft_view_" + std::to_string(getpid()) + ".json");
  ClusterMirror mirror;
  mirror.Apply({Put(ClusterKey(), "c"), Put(RunnerKey("r1"), EncodeRecord(FullRunner())),
                Put(AdapterKey("a"), EncodeRecord(Adapter("a", 1)))},
               42);
  std::ofstream(path) << mirror.Encode();
  const auto read = ReadViewFile(path);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->View(OkStatus())->revision, 42);
  EXPECT_EQ(read->View(OkStatus())->runners.at("r1"), FullRunner());
  EXPECT_EQ(read->ClusterText(), "c");
  EXPECT_EQ(read->LastingRecords().size(), 2u);  // a runner's record is its own to write
  std::ofstream(path) << R"({"format":1,"records":[]})";
  EXPECT_EQ(ReadViewFile(path).status().code(), StatusCode::kDataLoss);
  std::ofstream(path) << R"({"format":2,"records":{},"revision":1})";
  EXPECT_THAT(ReadViewFile(path).status().message(), HasSubstr("another version"));
  std::filesystem::remove(path);
  EXPECT_EQ(ReadViewFile(path).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace graft
