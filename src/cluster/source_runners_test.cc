// Fetches that one machine asks of another, over the loopback.
#include "cluster/source_runners.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "cluster/cluster_records.h"
#include "rpc/adapter_client.h"
#include "rpc/adapter_service.h"

namespace graft {
namespace source_runners_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

// Fetches at once, or once it is let or cancelled.
class GatedFetcher : public SourceFetcher {
 public:
  Result<SourceFolder> Fetch(const SourceOrder& order,
                             const std::atomic<bool>& is_cancelled) override {
    std::unique_lock lock(mutex_);
    ++num_begun;
    changed_.notify_all();
    while (is_shut && !is_cancelled) changed_.wait_for(lock, std::chrono::milliseconds(10));
    if (is_cancelled) {
      ++num_cancelled;
      return CancelledError("cancelled");
    }
    last_ = order;
    if (!failure_.ok()) return failure_;
    return SourceFolder{
        .path = "/there", .revision = order.revision, .bytes = 7, .fetched_bytes = 5};
  }
  Status Drop(const std::string& source, const std::string& path) override {
    return path == "/there" ? OkStatus() : FailedPreconditionError(source + " is served");
  }
  std::vector<std::string> names() const override { return {"hub"}; }

  void WaitForBegun() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return num_begun > 0; });
  }
  int cancelled() {
    std::lock_guard lock(mutex_);
    return num_cancelled;
  }
  SourceOrder last() {
    std::lock_guard lock(mutex_);
    return last_;
  }
  void FailWith(Status failure) {
    std::lock_guard lock(mutex_);
    failure_ = std::move(failure);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_shut = false;
  int num_begun = 0;
  int num_cancelled = 0;

 private:
  Status failure_;
  SourceOrder last_;
};

class FetchingPeer {
 public:
  explicit FetchingPeer(SourceFetcher* sources)
      : service_(AdapterService::Handlers{
            [](const AdapterLoad& load) -> Result<AdapterInfo> {
              return AdapterInfo{.name = load.name, .hash = "h", .revision = load.fetched_revision};
            },
            [](const std::string&) -> Result<std::string> { return NotFoundError("none"); },
            {},
            sources}) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_.grpc_service());
    server_ = builder.BuildAndStart();
  }
  ~FetchingPeer() { server_->Shutdown(std::chrono::system_clock::now()); }
  std::unique_ptr<AdapterClient> Client() const {
    return *AdapterClient::Make("127.0.0.1:" + std::to_string(port_), {});
  }

 private:
  AdapterService service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST(SourceRunnersTest, AllFrontendsAskRunnersInOneOrder) {
  ClusterView view;
  for (int i = 0; i < 8; ++i) {
    RunnerRecord runner;
    runner.id = "runner-" + std::to_string(i);
    runner.address = "host:" + std::to_string(i);
    runner.draining = i == 0;
    if (i != 1) runner.sources = {"hub", "shelf"};
    view.runners[runner.id] = runner;
  }
  const auto order = [&](const std::string& name) { return RunnersToFetch(view, "hub", name); };
  EXPECT_THAT(order("org/a"),
              UnorderedElementsAre("host:2", "host:3", "host:4", "host:5", "host:6", "host:7"));
  EXPECT_EQ(order("org/a"), order("org/a"));
  std::map<std::string, int> first;
  for (int i = 0; i < 600; ++i) ++first[order("org/" + std::to_string(i)).front()];
  EXPECT_EQ(first.size(), 6u);
  for (const auto& [address, count] : first) EXPECT_GT(count, 50) << address;
  // Without the first one the others are asked as before.
  const std::vector<std::string> before = order("org/a");
  view.runners.erase("runner-" + before.front().substr(5));
  EXPECT_EQ(order("org/a"), std::vector<std::string>(before.begin() + 1, before.end()));
  EXPECT_TRUE(RunnersToFetch(view, "other", "org/a").empty());
}

TEST(SourceRunnersTest, AnOrderAndItsAnswerTravel) {
  GatedFetcher fetcher;
  const FetchingPeer peer(&fetcher);
  const std::unique_ptr<AdapterClient> client = peer.Client();
  const std::atomic<bool> is_cancelled{false};
  const SourceOrder order = {.source = "hub",
                             .rest = "org/a",
                             .revision = "r1",
                             .is_tenants = true,
                             .tenant = "t",
                             .has_tenant_tokens = true};
  Result<SourceFolder> answer = InternalError("none");
  ASSERT_TRUE(client->FetchSource(order, is_cancelled, &answer).ok());
  EXPECT_EQ(answer->path, "/there");
  EXPECT_EQ(answer->revision, "r1");
  EXPECT_EQ(answer->bytes, 7);
  EXPECT_EQ(answer->fetched_bytes, 5);
  const SourceOrder last = fetcher.last();
  EXPECT_EQ(last.source + last.rest + last.tenant, "huborg/at");
  EXPECT_TRUE(last.is_tenants && last.has_tenant_tokens);
  // What the machine says is no failure of the way to it.
  for (const StatusCode code : {StatusCode::kUnavailable, StatusCode::kNotFound,
                                StatusCode::kUnimplemented, StatusCode::kFailedPrecondition}) {
    fetcher.FailWith(Status(code, "why"));
    ASSERT_TRUE(client->FetchSource(order, is_cancelled, &answer).ok());
    EXPECT_EQ(answer.status().code(), code);
    EXPECT_EQ(answer.status().message(), "why");
  }
  EXPECT_TRUE(client->DropSource("hub", "/there").ok());
  EXPECT_EQ(client->DropSource("hub", "/served").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(client->Load({.name = "a", .path = "/there", .fetched_revision = "r1"})->revision,
            "r1");
}

TEST(SourceRunnersTest, AMachineWithoutSourcesAndOneThatIsAway) {
  const std::atomic<bool> is_cancelled{false};
  Result<SourceFolder> answer = InternalError("none");
  std::unique_ptr<AdapterClient> client;
  {
    const FetchingPeer peer(nullptr);
    client = peer.Client();
    ASSERT_TRUE(client->FetchSource({.source = "hub"}, is_cancelled, &answer).ok());
    EXPECT_THAT(answer.status().message(), HasSubstr("it has no --source"));
  }
  EXPECT_EQ(client->FetchSource({.source = "hub"}, is_cancelled, &answer).code(),
            StatusCode::kUnavailable);
}

TEST(SourceRunnersTest, AFetchEndsWithTheOneThatAskedForIt) {
  GatedFetcher fetcher;
  fetcher.is_shut = true;
  const FetchingPeer peer(&fetcher);
  std::atomic<bool> is_cancelled{false};
  Status status;
  std::thread asking([&] {
    Result<SourceFolder> answer = InternalError("none");
    status = peer.Client()->FetchSource({.source = "hub"}, is_cancelled, &answer);
  });
  fetcher.WaitForBegun();
  is_cancelled = true;
  asking.join();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  while (fetcher.cancelled() == 0) std::this_thread::yield();
}

TEST(SourceRunnersTest, RecordsSayWhereAnAdapterCameFrom) {
  AdapterVersion version{
      .version = 2,
      .entry = {.name = "hub/org/a", .hash = "h", .revision = "r1", .is_looked_up = true}};
  EXPECT_EQ(*DecodeAdapterVersion(EncodeRecord(version)), version);
  RunnerRecord runner;
  runner.id = runner.address = "a:1";
  runner.sources = {"hub", "shelf"};
  EXPECT_THAT(DecodeRunnerRecord(EncodeRecord(runner))->sources, ElementsAre("hub", "shelf"));
}

}  // namespace
}  // namespace source_runners_test
}  // namespace graft
