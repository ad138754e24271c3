// A cluster's view against a real etcd that is killed, stopped and emptied.
#include "cluster/cluster_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/file.h"
#include "cluster/cluster_keys.h"
#include "cluster/cluster_store.h"
#include "cluster/etcd_registry.h"
#include "cluster/presence.h"
#include "etcd/etcd_testing.h"

namespace graft {
namespace {

using testing::HasSubstr;

RunnerRecord Runner(const std::string& id) {
  RunnerRecord runner;
  runner.id = id;
  runner.address = "127.0.0.1:1";
  return runner;
}

class ClusterWatcherTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ClusterStore::Init(*client_, "base", "test").ok());
    view_file_ = etcd_.folder() + "/view.json";
    Start();
  }
  void Start() {
    ClusterWatcher::Options options;
    options.view_file = view_file_;
    options.come_back_ms = 1500;
    auto watcher = ClusterWatcher::Start(*client_, options);
    ASSERT_TRUE(watcher.ok()) << watcher.status().ToString();
    watcher_ = std::move(*watcher);
  }
  Status PutAdapter(const std::string& name) {
    EtcdRegistry registry(watcher_->store(), "test");
    return registry.Put({.name = name, .hash = "h", .path = "/a"}, false);
  }
  // On a busy machine etcd may answer too late.
  bool Puts(const std::string& name) {
    return Eventually([&] { return PutAdapter(name).ok(); });
  }
  std::shared_ptr<const ClusterView> view() { return watcher_->view(); }
  bool Sees(size_t num_runners, size_t num_adapters) {
    return Eventually([&] {
      return view()->runners.size() == num_runners &&
             view()->registry->adapters.size() == num_adapters;
    });
  }
  // Whether the file holds what was seen last.
  bool IsSaved(const std::string& word) {
    return Eventually([&] {
      const auto text = ReadFile(view_file_);
      return text.ok() && text->find(word) != std::string::npos;
    });
  }

  TestEtcd etcd_;
  std::unique_ptr<EtcdClient> client_ = etcd_.Client();
  std::string view_file_;
  std::unique_ptr<ClusterWatcher> watcher_;
};

TEST_F(ClusterWatcherTest, RunnersComeTellAndGo) {
  {
    Presence first(watcher_->store(), RunnerKey("r1"), EncodeRecord(Runner("r1")),
                   {.ttl_s = 1, .interval_ms = 10});
    Presence second(watcher_->store(), RunnerKey("r2"), EncodeRecord(Runner("r2")),
                    {.ttl_s = 1, .interval_ms = 10});
    ASSERT_TRUE(Sees(2, 0));
    RunnerRecord busy = Runner("r1");
    for (int i = 1; i <= 200; ++i) {
      busy.running_requests = i;
      first.Set(EncodeRecord(busy));
    }
    EXPECT_TRUE(Eventually([&] { return view()->runners.at("r1").running_requests == 200; }));
    // It is told once per interval at most, and only of the newest view.
    EXPECT_LT(view()->revision, 100);
  }
  EXPECT_TRUE(Sees(0, 0));
}

TEST_F(ClusterWatcherTest, EtcdKilledAndStartedWithItsDataChangesNothing) {
  Presence runner(watcher_->store(), RunnerKey("r1"), EncodeRecord(Runner("r1")), {.ttl_s = 1});
  ASSERT_TRUE(Puts("a"));
  ASSERT_TRUE(Sees(1, 1));
  etcd_.Kill();
  ASSERT_TRUE(Eventually([&] { return !view()->away.ok(); }));
  EXPECT_FALSE(PutAdapter("b").ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // longer than the lease
  EXPECT_EQ(view()->runners.size(), 1u);
  ASSERT_TRUE(Eventually([&] { return !runner.stands(); }));
  etcd_.Start();
  ASSERT_TRUE(Eventually([&] { return view()->away.ok(); }));
  EXPECT_EQ(view()->registry->adapters.size(), 1u);
  ASSERT_TRUE(Puts("b"));
  EXPECT_TRUE(Sees(1, 2));
  EXPECT_TRUE(Eventually([&] { return runner.stands(); }));
}

TEST_F(ClusterWatcherTest, AnEmptyEtcdTakesNothingAndTheViewIsWrittenBack) {
  Presence runner(watcher_->store(), RunnerKey("r1"), EncodeRecord(Runner("r1")), {.ttl_s = 1});
  for (int i = 0; i < 140; ++i) {  // more than one transaction
    ASSERT_TRUE(Puts("a" + std::to_string(i)));
  }
  ASSERT_TRUE(Sees(1, 140));
  ASSERT_TRUE(IsSaved("graft/adapters/a139"));
  etcd_.Kill();
  etcd_.Start(/*keep_data=*/false);
  ASSERT_TRUE(Eventually([&] { return view()->away.code() == StatusCode::kFailedPrecondition; }));
  EXPECT_THAT(view()->away.message(), HasSubstr("graft cluster restore"));
  EXPECT_EQ(view()->registry->adapters.size(), 140u);
  EXPECT_EQ(view()->runners.size(), 1u);
  EXPECT_EQ(PutAdapter("b").code(), StatusCode::kFailedPrecondition);
  // A process that starts now must not serve an empty registry.
  const auto other = ClusterWatcher::Start(*client_, {});
  EXPECT_THAT(other.status().message(), HasSubstr("graft cluster restore"));

  const auto records = ReadViewFile(view_file_)->LastingRecords();
  ASSERT_TRUE(ClusterStore::Restore(*client_, records, "test").ok());
  ASSERT_TRUE(Eventually([&] { return view()->away.ok(); }));
  EXPECT_EQ(view()->runners.size(), 1u);  // the runner has time to come back
  EXPECT_TRUE(Sees(1, 140));
  ASSERT_TRUE(Puts("b"));
  std::this_thread::sleep_for(std::chrono::milliseconds(2000));  // longer than that time
  EXPECT_TRUE(Sees(1, 141));
  EXPECT_EQ(ClusterStore::Restore(*client_, records, "test").code(), StatusCode::kAlreadyExists);
}

TEST_F(ClusterWatcherTest, StartsFromTheDiskWhileEtcdIsAway) {
  ASSERT_TRUE(Puts("a"));
  ASSERT_TRUE(Sees(0, 1));
  ASSERT_TRUE(IsSaved("graft/adapters/a"));
  watcher_.reset();
  etcd_.Kill();
  Start();
  EXPECT_EQ(view()->registry->adapters.size(), 1u);
  EXPECT_FALSE(view()->away.ok());
  etcd_.Start();
  ASSERT_TRUE(Eventually([&] { return view()->away.ok(); }));
  EXPECT_TRUE(Puts("b"));
  EXPECT_TRUE(Sees(0, 2));
  // Without a view on disk nothing is known at all.
  etcd_.Kill();
  EXPECT_EQ(ClusterWatcher::Start(*client_, {.patience_ms = 0}).status().code(),
            StatusCode::kUnavailable);
}

TEST_F(ClusterWatcherTest, AStartAsksUntilEtcdAnswers) {
  watcher_.reset();
  view_file_ = "";
  etcd_.Kill();
  std::thread starts([this] {
    Start();
    if (watcher_ != nullptr) {
      EXPECT_TRUE(JoinBase(watcher_->store(), {"base", "text", "weights"}).ok());
    }
  });
  // Longer than one question takes, which fails at once.
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  etcd_.Start();
  starts.join();
  // One that has stopped answers no question in its time, and a change may be made twice.
  ASSERT_NE(watcher_, nullptr);
  etcd_.Pause();
  std::thread joins([this] {
    EXPECT_TRUE(JoinBase(watcher_->store(), {"base", "text", "weights"}).ok());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // one question has a second
  etcd_.Resume();
  joins.join();
}

TEST_F(ClusterWatcherTest, AStoppedEtcdIsWaitedFor) {
  Presence runner(watcher_->store(), RunnerKey("r1"), EncodeRecord(Runner("r1")), {.ttl_s = 2});
  ASSERT_TRUE(Sees(1, 0));
  etcd_.Pause();
  const Status refused = PutAdapter("a");
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable) << refused.ToString();
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_EQ(view()->runners.size(), 1u);
  etcd_.Resume();
  EXPECT_TRUE(Puts("b"));
  EXPECT_TRUE(Eventually([&] {
    return runner.stands() && view()->runners.size() == 1 &&
           view()->registry->adapters.contains("b");
  }));
}

TEST_F(ClusterWatcherTest, ABaseModelIsTheWholeClusters) {
  ClusterStore& store = watcher_->store();
  const BaseModelId frontends = {"base", "text", ""};
  const BaseModelId runners = {"base", "text", "weights"};
  EXPECT_TRUE(JoinBase(store, frontends).ok());
  EXPECT_TRUE(JoinBase(store, runners).ok());
  EXPECT_TRUE(JoinBase(store, frontends).ok());
  const Status text = JoinBase(store, {"other", "another", "weights"});
  EXPECT_EQ(text.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(text.message(),
              HasSubstr("another base model ('base') than this one ('other'): config "
                        "or tokenizer differ"));
  EXPECT_THAT(JoinBase(store, {"base", "text", "others"}).message(),
              HasSubstr("the weights differ; start it with the cluster's model folder"));
  ASSERT_TRUE(ReplaceBase(store, {"other", "another", "others"}, "test").ok());
  EXPECT_FALSE(JoinBase(store, runners).ok());
  EXPECT_TRUE(JoinBase(store, {"other", "another", "others"}).ok());
  EXPECT_EQ(store.ReadAudit(1)->front().line.change, "base");
}

TEST_F(ClusterWatcherTest, AnotherClusterIsNotJoinedByMistake) {
  ASSERT_TRUE(IsSaved("graft/cluster"));
  watcher_.reset();
  TestEtcd other;
  const auto client = other.Client();
  ASSERT_TRUE(ClusterStore::Init(*client, "base", "test").ok());
  EXPECT_EQ(ClusterStore::Init(*client, "base", "test").status().code(),
            StatusCode::kAlreadyExists);
  ClusterWatcher::Options options;
  options.view_file = view_file_;
  const auto joined = ClusterWatcher::Start(*client, options);
  EXPECT_EQ(joined.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(joined.status().message(), HasSubstr("has another cluster than the view"));
}

}  // namespace
}  // namespace graft
