// What a client does when an etcd member has lost the others: it asks another one, and says so if
// there is none. Runs against real etcds, most of which are stopped, and against a fake one that
// records its calls.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>

#include "etcd/etcd.grpc.pb.h"
#include "etcd/etcd_testing.h"
#include "etcd/etcd_watch.h"

namespace graft {
namespace etcd_leader_loss_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// Only against hangs: elections take long on a busy machine.
bool InTime(const std::function<bool()>& holds) {
  return Eventually(holds, std::chrono::seconds(120));
}

class Heard : public EtcdListener {
 public:
  void OnAll(const std::vector<EtcdKeyValue>& items, int64_t, bool) override {
    std::lock_guard lock(mutex_);
    keys_.clear();
    for (const EtcdKeyValue& item : items) keys_.insert(item.key);
    away_ = OkStatus();
    ++num_all_;
  }
  void OnChanges(const std::vector<EtcdChange>& changes, int64_t) override {
    std::lock_guard lock(mutex_);
    for (const EtcdChange& change : changes) keys_.insert(change.item.key);
  }
  void OnAway(const Status& why) override {
    std::lock_guard lock(mutex_);
    away_ = why;
  }
  Status away() {
    std::lock_guard lock(mutex_);
    return away_;
  }
  int num_all() {
    std::lock_guard lock(mutex_);
    return num_all_;
  }
  bool Has(const std::string& key) {
    std::lock_guard lock(mutex_);
    return keys_.contains(key);
  }

 private:
  std::mutex mutex_;
  std::set<std::string> keys_;
  Status away_;
  int num_all_ = 0;
};

Status PutOne(EtcdClient& client, const std::string& key) {
  return client.Commit({.then = {EtcdOperation::Put(key, "1")}}).status();
}

TEST(EtcdLeaderLossTest, AMemberThatIsAloneIsNotFollowed) {
  TestEtcdNodes nodes;
  const auto alone = *EtcdClient::Make(nodes.Options({2}));
  Heard heard;
  EtcdWatch watch(*alone, "w/", std::nullopt, "", heard);
  ASSERT_TRUE(InTime([&] { return heard.num_all() == 1; }));
  nodes.Pause(0);
  nodes.Pause(1);
  EXPECT_TRUE(InTime([&] { return !heard.away().ok(); }))
      << "it is followed though it cannot hear of changes";
  nodes.Resume(0);
  nodes.Resume(1);
  const auto others = *EtcdClient::Make(nodes.Options({0, 1}));
  ASSERT_TRUE(InTime([&] { return PutOne(*others, "w/a").ok(); }));
  EXPECT_TRUE(InTime([&] { return heard.Has("w/a") && heard.away().ok(); }));
}

// The others elect one of them: nothing is refused that they can do.
TEST(EtcdLeaderLossTest, ChangesWaitForAnElection) {
  TestEtcdNodes nodes;
  EtcdOptions options = nodes.Options({0, 1, 2});
  options.deadline_ms = 6000;
  const auto client = *EtcdClient::Make(options);
  ASSERT_TRUE(PutOne(*client, "a").ok());
  for (int i = 0; i < TestEtcdNodes::kCount; ++i) {
    nodes.Pause(i);
    int num_made = 0;
    // A change that was on its way to the one that stopped is in doubt; then the others take over.
    EXPECT_TRUE(InTime([&] {
      num_made += PutOne(*client, "b").ok();
      return num_made == 3;
    })) << i;
    nodes.Resume(i);
  }
}

// The services of etcd that a watch needs. Notes calls that would take an answer from a member
// without a leader.
class OwnEtcd : public etcdserverpb::KV::Service,
                public etcdserverpb::Watch::Service,
                public etcdserverpb::Lease::Service,
                public etcdserverpb::Auth::Service {
 public:
  OwnEtcd() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<etcdserverpb::KV::Service*>(this));
    builder.RegisterService(static_cast<etcdserverpb::Watch::Service*>(this));
    builder.RegisterService(static_cast<etcdserverpb::Lease::Service*>(this));
    builder.RegisterService(static_cast<etcdserverpb::Auth::Service*>(this));
    server_ = builder.BuildAndStart();
  }
  ~OwnEtcd() override { server_->Shutdown(std::chrono::system_clock::now()); }

  EtcdOptions Options() const {
    EtcdOptions options;
    options.endpoints = {"127.0.0.1:" + std::to_string(port_)};
    options.deadline_ms = 2000;
    options.sign_ms = 20;
    return options;
  }
  std::atomic<bool> hears_others{true};
  std::atomic<int> num_signs{0};
  std::atomic<int> num_changes{0};
  std::atomic<int> num_refusals{0};       // of changes that are still to come
  std::atomic<int> num_refused_users{0};  // of users' sign-ins that are still to come
  std::set<std::string> without_leader() {
    std::lock_guard lock(mutex_);
    return without_leader_;
  }

  grpc::Status Range(grpc::ServerContext* context, const etcdserverpb::RangeRequest*,
                     etcdserverpb::RangeResponse*) override {
    Note("range", *context);
    if (!hears_others) return {grpc::StatusCode::UNAVAILABLE, "etcdserver: request timed out"};
    ++num_signs;
    return grpc::Status::OK;
  }
  grpc::Status Txn(grpc::ServerContext* context, const etcdserverpb::TxnRequest* request,
                   etcdserverpb::TxnResponse* response) override {
    Note("txn", *context);
    if (num_refusals > 0) {
      --num_refusals;
      return {grpc::StatusCode::UNAVAILABLE, "etcdserver: no leader"};
    }
    ++num_changes;
    response->set_succeeded(true);
    for (int i = 0; i < request->success_size(); ++i) {
      response->add_responses()->mutable_response_range();
    }
    return grpc::Status::OK;
  }
  grpc::Status Watch(grpc::ServerContext* context,
                     grpc::ServerReaderWriter<etcdserverpb::WatchResponse,
                                              etcdserverpb::WatchRequest>* stream) override {
    Note("watch", *context);
    etcdserverpb::WatchRequest request;
    for (int64_t id = 0; stream->Read(&request); ++id) {
      etcdserverpb::WatchResponse response;
      response.set_watch_id(id);
      response.set_created(true);
      stream->Write(response);
    }
    return grpc::Status::OK;
  }
  grpc::Status LeaseGrant(grpc::ServerContext* context, const etcdserverpb::LeaseGrantRequest*,
                          etcdserverpb::LeaseGrantResponse* response) override {
    Note("grant", *context);
    response->set_id(7);
    response->set_ttl(5);
    return grpc::Status::OK;
  }
  grpc::Status LeaseRevoke(grpc::ServerContext* context, const etcdserverpb::LeaseRevokeRequest*,
                           etcdserverpb::LeaseRevokeResponse*) override {
    Note("revoke", *context);
    return grpc::Status::OK;
  }
  grpc::Status LeaseKeepAlive(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<etcdserverpb::LeaseKeepAliveResponse,
                               etcdserverpb::LeaseKeepAliveRequest>* stream) override {
    Note("renewal", *context);
    etcdserverpb::LeaseKeepAliveRequest request;
    while (stream->Read(&request)) {
      etcdserverpb::LeaseKeepAliveResponse response;
      response.set_ttl(5);
      stream->Write(response);
    }
    return grpc::Status::OK;
  }
  grpc::Status Authenticate(grpc::ServerContext* context, const etcdserverpb::AuthenticateRequest*,
                            etcdserverpb::AuthenticateResponse* response) override {
    Note("signing in", *context);
    if (num_refused_users > 0) {
      --num_refused_users;
      return {grpc::StatusCode::UNAVAILABLE, "etcdserver: no leader"};
    }
    response->set_token("token");
    return grpc::Status::OK;
  }

 private:
  void Note(const std::string& call, const grpc::ServerContext& context) {
    const auto wanted = context.client_metadata().find("hasleader");
    if (wanted != context.client_metadata().end() && wanted->second == "true") return;
    std::lock_guard lock(mutex_);
    without_leader_.insert(call);
  }

  int port_ = 0;
  std::mutex mutex_;
  std::set<std::string> without_leader_;
  std::unique_ptr<grpc::Server> server_;
};

TEST(EtcdLeaderLossTest, EveryCallAsksForAMemberWithALeader) {
  OwnEtcd etcd;
  EtcdOptions options = etcd.Options();
  options.user = "root";
  options.password = "secret";
  const auto client = *EtcdClient::Make(options);
  ASSERT_TRUE(PutOne(*client, "a").ok());
  EXPECT_EQ(client->GrantLease(5)->id, 7);
  EXPECT_EQ(*client->RenewLease(7), 5);
  EXPECT_TRUE(client->RevokeLease(7).ok());
  const auto stream = *client->Watch("w/");
  ASSERT_TRUE(stream->Read().has_value());
  EXPECT_TRUE(InTime([&] { return etcd.num_signs > 0; }));
  stream->Cancel();
  EXPECT_TRUE(stream->End().ok());
  EXPECT_THAT(etcd.without_leader(), IsEmpty());
}

TEST(EtcdLeaderLossTest, AMemberThatGivesNoSignIsLeft) {
  OwnEtcd etcd;
  const auto client = *EtcdClient::Make(etcd.Options());
  const auto stream = *client->Watch("w/");
  ASSERT_TRUE(stream->Read().has_value());
  ASSERT_TRUE(InTime([&] { return etcd.num_signs > 2; }));
  etcd.hears_others = false;
  EXPECT_FALSE(stream->Read().has_value()) << "without signs it would be read for ever";
  const Status why = stream->End();
  EXPECT_EQ(why.code(), StatusCode::kUnavailable);
  EXPECT_THAT(why.message(), HasSubstr("does not hear the others"));
}

// A refusal for want of a leader says that nothing was done, so that the change is asked for again.
TEST(EtcdLeaderLossTest, AChangeThatIsRefusedForWantOfALeaderIsMadeOnce) {
  OwnEtcd etcd;
  etcd.num_refusals = 3;
  const auto client = *EtcdClient::Make(etcd.Options());
  EXPECT_TRUE(PutOne(*client, "a").ok());
  EXPECT_EQ(etcd.num_changes, 1);
  etcd.num_refusals = 1 << 20;
  EtcdOptions hasty = etcd.Options();
  hasty.deadline_ms = 200;
  EXPECT_FALSE(PutOne(**EtcdClient::Make(hasty), "a").ok());
  EXPECT_EQ(etcd.num_changes, 1);
}

TEST(EtcdLeaderLossTest, AUserSignsInOnceThereIsALeader) {
  OwnEtcd etcd;
  etcd.num_refused_users = 3;
  EtcdOptions options = etcd.Options();
  options.user = "root";
  options.password = "secret";
  EXPECT_TRUE(PutOne(**EtcdClient::Make(options), "a").ok());
  etcd.num_refused_users = 1 << 20;
  options.deadline_ms = 200;
  const Status refused = PutOne(**EtcdClient::Make(options), "a");
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("cannot sign in as 'root'"));
  EXPECT_EQ(etcd.num_changes, 1);
}

}  // namespace
}  // namespace etcd_leader_loss_test
}  // namespace graft
