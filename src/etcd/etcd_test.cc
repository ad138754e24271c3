// EtcdClient, EtcdLease and EtcdWatch against a real etcd that is killed, stopped and emptied.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "etcd/etcd.grpc.pb.h"
#include "etcd/etcd_channel.h"
#include "etcd/etcd_lease.h"
#include "etcd/etcd_testing.h"
#include "etcd/etcd_watch.h"

namespace graft {
namespace {

using testing::HasSubstr;
using Op = EtcdOperation;

Status PutKey(EtcdClient& client, const std::string& key, const std::string& value) {
  return client.Commit({.then = {Op::Put(key, value)}}).status();
}

// Holds what a listener would keep in memory.
class Mirror : public EtcdListener {
 public:
  void OnAll(const std::vector<EtcdKeyValue>& items, int64_t, bool set_back) override {
    std::lock_guard lock(mutex_);
    values_.clear();
    for (const EtcdKeyValue& item : items) values_[item.key] = item.value;
    ++num_all_;
    num_set_back_ += set_back;
    away_ = OkStatus();
  }
  void OnChanges(const std::vector<EtcdChange>& changes, int64_t) override {
    std::lock_guard lock(mutex_);
    for (const EtcdChange& change : changes) {
      if (change.deleted) {
        values_.erase(change.item.key);
      } else {
        values_[change.item.key] = change.item.value;
      }
    }
    num_changes_ += static_cast<int>(changes.size());
  }
  void OnAway(const Status& why) override {
    std::lock_guard lock(mutex_);
    away_ = why;
  }

  std::map<std::string, std::string> values() const {
    std::lock_guard lock(mutex_);
    return values_;
  }
  Status away() const {
    std::lock_guard lock(mutex_);
    return away_;
  }
  int num_all() const {
    std::lock_guard lock(mutex_);
    return num_all_;
  }
  int num_set_back() const {
    std::lock_guard lock(mutex_);
    return num_set_back_;
  }
  int num_changes() const {
    std::lock_guard lock(mutex_);
    return num_changes_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> values_;
  Status away_;
  int num_all_ = 0, num_set_back_ = 0, num_changes_ = 0;
};

using Values = std::map<std::string, std::string>;

TEST(EtcdClientTest, TransactionsCompareAndRead) {
  TestEtcd etcd;
  const auto client = etcd.Client();
  const auto first =
      client->Commit({.compares = {EtcdCompare::Absent("a/1")}, .then = {Op::Put("a/1", "x")}});
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_TRUE(first->succeeded);
  const auto second = client->Commit({.compares = {EtcdCompare::Absent("a/1")},
                                      .then = {Op::Put("a/1", "y")},
                                      .otherwise = {Op::Get("a/1"), Op::Get("none")}});
  EXPECT_FALSE(second->succeeded);
  ASSERT_EQ(second->found.size(), 2u);
  EXPECT_EQ(second->found[0][0].value, "x");
  EXPECT_EQ(second->found[0][0].mod_revision, first->revision);
  EXPECT_TRUE(second->found[1].empty());
  const auto third =
      client->Commit({.compares = {EtcdCompare::ModRevision("a/1", first->revision),
                                   EtcdCompare::Value("a/1", "x")},
                      .then = {Op::Put("a/1", "z"), Op::Put("a/2", "2"), Op::Put("b", "3")}});
  EXPECT_TRUE(third->succeeded);
  const auto all = client->ReadPrefix("a/");
  ASSERT_EQ(all->found[0].size(), 2u);
  EXPECT_EQ(all->found[0][0].value, "z");
  EXPECT_TRUE(client->Commit({.then = {Op::DeletePrefix("a/")}}).ok());
  EXPECT_TRUE(client->ReadPrefix("a/")->found[0].empty());
}

TEST(EtcdClientTest, OptionsThatCannotWorkSaySo) {
  const auto refusal = [](EtcdOptions options) {
    return EtcdClient::Make(options).status().message();
  };
  EXPECT_THAT(refusal({}), HasSubstr("no endpoint"));
  EXPECT_THAT(refusal({.endpoints = {"host"}}), HasSubstr("not host:port"));
  EXPECT_THAT(refusal({.endpoints = {"https://h:1"}}), HasSubstr("give the CA"));
  EXPECT_THAT(refusal({.endpoints = {"h:1"}, .cert_file = "c"}), HasSubstr("without the CA"));
}

TEST(EtcdClientTest, AnotherEndpointAnswersAndNoneIsAFailureThatNamesThem) {
  TestEtcd etcd;
  EtcdOptions options = etcd.Options();
  options.endpoints.insert(options.endpoints.begin(), "127.0.0.1:1");
  const auto client = *EtcdClient::Make(options);
  EXPECT_TRUE(PutKey(*client, "a", "1").ok());
  options.endpoints = {"127.0.0.1:1"};
  const Status away = PutKey(**EtcdClient::Make(options), "a", "1");
  EXPECT_EQ(away.code(), StatusCode::kUnavailable);
  EXPECT_THAT(away.message(), HasSubstr("etcd at 127.0.0.1:1 does not answer"));
}

TEST(EtcdClientTest, TlsAsksBothSidesForCertificates) {
  TestEtcd etcd({}, /*tls=*/true);
  EXPECT_TRUE(PutKey(*etcd.Client(), "a", "1").ok());
  EtcdOptions no_certificate = etcd.Options();
  no_certificate.cert_file = no_certificate.key_file = "";
  EXPECT_FALSE(PutKey(**EtcdClient::Make(no_certificate), "a", "1").ok());
  TestEtcd other({}, /*tls=*/true);
  EtcdOptions wrong_ca = etcd.Options();
  wrong_ca.ca_file = other.Options().ca_file;
  const Status refused = PutKey(**EtcdClient::Make(wrong_ca), "a", "1");
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("certificate and the CA match"));
}

TEST(EtcdClientTest, SignsInAndSaysWhenThePasswordIsWrong) {
  TestEtcd etcd;
  const std::string etcdctl = "ETCDCTL_API=3 etcdctl --endpoints=" + etcd.Options().endpoints[0];
  ASSERT_EQ(std::system((etcdctl + " user add root:secret >/dev/null && " + etcdctl +
                         " user grant-role root root >/dev/null && " + etcdctl +
                         " auth enable >/dev/null")
                            .c_str()),
            0);
  EtcdOptions options = etcd.Options();
  EXPECT_THAT(PutKey(**EtcdClient::Make(options), "a", "1").message(),
              HasSubstr("check etcd's user"));
  options.user = "root";
  options.password = "wrong";
  EXPECT_THAT(PutKey(**EtcdClient::Make(options), "a", "1").message(),
              HasSubstr("sign in as 'root'"));
  options.password = "secret";
  const auto client = *EtcdClient::Make(options);
  EXPECT_TRUE(PutKey(*client, "a", "1").ok());
  // A token that etcd does not know any more must be replaced.
  ChannelsOf(*client).token = "stale.1";
  EXPECT_TRUE(PutKey(*client, "a", "2").ok());
  // What is wrong in itself is not told as a matter of signing in.
  const Status wrong = PutKey(*client, "", "1");
  EXPECT_EQ(wrong.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(wrong.message(), testing::Not(HasSubstr("password")));
  for (const size_t num_bytes : {size_t{1'700'000}, size_t{4'000'000}}) {
    const Status large = PutKey(*client, "a", std::string(num_bytes, 'x'));
    EXPECT_EQ(large.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(large.message(), HasSubstr("--max-request-bytes"));
  }
}

TEST(EtcdClientTest, AStoppedServerIsADeadlineAndNobodyKnowsWhatItDid) {
  TestEtcd etcd;
  const auto client = etcd.Client();
  ASSERT_TRUE(PutKey(*client, "a", "1").ok());
  etcd.Pause();
  const Status status = PutKey(*client, "a", "2");
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("whether it was done is not known"));
  // A call that only reads cannot have changed anything.
  EXPECT_EQ(client->ReadPrefix("a").status().code(), StatusCode::kUnavailable);
  etcd.Resume();
  EXPECT_TRUE(Eventually([&] { return PutKey(*client, "a", "3").ok(); }));
}

TEST(EtcdLeaseTest, IsRenewedLostAndTakenAgain) {
  TestEtcd etcd;
  const auto client = etcd.Client();
  std::atomic<int> num_attached{0};
  constexpr int kTtlS = 4;  // renewed in time by a machine that is busy
  EtcdLease lease(*client, kTtlS, [&](int64_t id) {
    ++num_attached;
    return client->Commit({.then = {Op::Put("me", "here", id)}}).status();
  });
  ASSERT_TRUE(Eventually([&] { return num_attached == 1 && lease.held(); }));
  std::this_thread::sleep_for(std::chrono::seconds(kTtlS + 1));  // longer than the lease
  EXPECT_EQ(num_attached, 1);
  EXPECT_EQ(client->ReadPrefix("me")->found[0].size(), 1u);
  etcd.Pause();
  EXPECT_TRUE(Eventually([&] { return !lease.held() && !lease.status().ok(); }));
  etcd.Resume();
  EXPECT_TRUE(Eventually([&] { return lease.held(); }));
  // The lease ends without the client's doing. It gets another one, and writes what stood under the
  // lease again.
  const int before = num_attached;
  ASSERT_TRUE(client->RevokeLease(lease.id()).ok());
  EXPECT_TRUE(Eventually([&] { return num_attached > before && lease.held(); }));
  EXPECT_TRUE(Eventually([&] { return client->ReadPrefix("me")->found[0].size() == 1; }));
}

TEST(EtcdLeaseTest, ItsKeysGoWithIt) {
  TestEtcd etcd;
  const auto client = etcd.Client();
  {
    EtcdLease lease(*client, 60, [&](int64_t id) {
      return client->Commit({.then = {Op::Put("me", "here", id)}}).status();
    });
    ASSERT_TRUE(Eventually([&] { return !client->ReadPrefix("me")->found[0].empty(); }));
  }
  EXPECT_TRUE(client->ReadPrefix("me")->found[0].empty());
}

TEST(EtcdWatchTest, FollowsThroughAKillAndReadsAgainWhereEtcdForgot) {
  TestEtcd etcd;
  const auto client = etcd.Client();
  ASSERT_TRUE(PutKey(*client, "w/a", "1").ok());
  Mirror mirror;
  EtcdWatch watch(*client, "w/", std::nullopt, "", mirror);
  ASSERT_TRUE(Eventually([&] { return mirror.values() == Values{{"w/a", "1"}}; }));
  ASSERT_TRUE(client->Commit({.then = {Op::Put("w/b", "2"), Op::Delete("w/a")}}).ok());
  ASSERT_TRUE(Eventually([&] { return mirror.values() == Values{{"w/b", "2"}}; }));
  etcd.Kill();
  ASSERT_TRUE(Eventually([&] { return !mirror.away().ok(); }));
  etcd.Start();
  ASSERT_TRUE(Eventually([&] { return PutKey(*client, "w/c", "3").ok(); }));
  ASSERT_TRUE(Eventually([&] { return mirror.values() == Values{{"w/b", "2"}, {"w/c", "3"}}; }));
  EXPECT_TRUE(mirror.away().ok());
  EXPECT_GE(mirror.num_all(), 2) << "it has read all anew: etcd may have been set back";
  EXPECT_EQ(mirror.num_set_back(), 0);

  // etcd is away while it forgets the revisions that come next.
  etcd.Kill();
  ASSERT_TRUE(Eventually([&] { return !mirror.away().ok(); }));
  etcd.Start();
  const auto other = etcd.Client();
  etcdserverpb::CompactionRequest compact;
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(PutKey(*other, "w/c", std::to_string(i)).ok());
  compact.set_revision(other->ReadPrefix("w/")->revision);
  grpc::ClientContext context;
  etcdserverpb::CompactionResponse response;
  ASSERT_TRUE(etcdserverpb::KV::NewStub(ChannelsOf(*other).channels[0])
                  ->Compact(&context, compact, &response)
                  .ok());
  ASSERT_TRUE(Eventually([&] { return mirror.values() == Values{{"w/b", "2"}, {"w/c", "19"}}; }));
  ASSERT_TRUE(PutKey(*other, "w/b", "last").ok());
  EXPECT_TRUE(Eventually([&] { return mirror.values()["w/b"] == "last"; }));
}

TEST(EtcdWatchTest, AStoppedServerIsFollowedOn) {
  TestEtcd etcd;
  const auto client = etcd.Client();
  Mirror mirror;
  EtcdWatch watch(*client, "w/", std::nullopt, "", mirror);
  ASSERT_TRUE(Eventually([&] { return mirror.num_all() == 1; }));
  etcd.Pause();
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  etcd.Resume();
  ASSERT_TRUE(Eventually([&] { return PutKey(*client, "w/c", "3").ok(); }));
  EXPECT_TRUE(Eventually([&] { return mirror.values() == Values{{"w/c", "3"}}; }));
}

TEST(EtcdWatchTest, AnEmptyEtcdIsAnotherAndTakesNothingAway) {
  TestEtcd etcd;
  const auto client = etcd.Client();
  ASSERT_TRUE(PutKey(*client, "w/id", "ours").ok());
  ASSERT_TRUE(PutKey(*client, "w/a", "1").ok());
  Mirror mirror;
  EtcdWatch watch(*client, "w/", EtcdCompare::Value("w/id", "ours"), "not ours", mirror);
  ASSERT_TRUE(Eventually([&] { return mirror.values().size() == 2; }));
  etcd.Kill();
  etcd.Start(/*keep_data=*/false);
  ASSERT_TRUE(Eventually([&] { return mirror.away().code() == StatusCode::kFailedPrecondition; }));
  EXPECT_THAT(mirror.away().message(), HasSubstr("not ours"));
  EXPECT_EQ(mirror.values().size(), 2u);
  // The data is set back to an older state, but it is ours again.
  ASSERT_TRUE(PutKey(*etcd.Client(), "w/id", "ours").ok());
  ASSERT_TRUE(Eventually([&] { return mirror.values() == Values{{"w/id", "ours"}}; }));
  EXPECT_EQ(mirror.num_set_back(), 1);
}

// What etcd is asked through it; something happens before the first reading or change.
class AfterSomething : public EtcdClient {
 public:
  AfterSomething(EtcdClient& client, std::function<void()> something)
      : client_(client), something_(std::move(something)) {}
  Result<EtcdOutcome> Commit(const EtcdTransaction& transaction) override {
    if (something_) std::exchange(something_, {})();
    return client_.Commit(transaction);
  }
  Result<EtcdLeaseGrant> GrantLease(int64_t ttl_s) override { return client_.GrantLease(ttl_s); }
  Result<int64_t> RenewLease(int64_t id) override { return client_.RenewLease(id); }
  Status RevokeLease(int64_t id) override { return client_.RevokeLease(id); }
  Result<std::unique_ptr<EtcdWatchStream>> Watch(const std::string& prefix) override {
    return client_.Watch(prefix);
  }
  const std::string& name() const override { return client_.name(); }

 private:
  EtcdClient& client_;
  std::function<void()> something_;
};

// As of a process that is stopped there. Found by seed 1989 of the hostile simulation.
TEST(EtcdWatchTest, AnEtcdThatIsReplacedBetweenTheStreamAndTheReadingIsNotMixedWithTheNext) {
  TestEtcd etcd;
  const auto client = etcd.Client();
  constexpr int64_t kNumChanges = 9;
  AfterSomething replaced(*client, [&] {
    const auto witness = client->Watch("w/");  // by the same connection
    ASSERT_TRUE(witness.ok() && (*witness)->Read().has_value());
    for (int64_t i = 0; i < kNumChanges; ++i) {
      ASSERT_TRUE(PutKey(*client, "w/former" + std::to_string(i), "").ok());
    }
    for (int64_t heard = 0; heard < kNumChanges;) {
      const std::optional<EtcdNews> news = (*witness)->Read();
      ASSERT_TRUE(news.has_value());
      heard += std::ssize(news->changes);
    }
    (*witness)->Cancel();
    (void)(*witness)->End();
    etcd.Kill();
    etcd.Start(/*keep_data=*/false);
    ASSERT_TRUE(PutKey(*etcd.Client(), "w/next", "1").ok());
  });
  Mirror mirror;
  EtcdWatch watch(replaced, "w/", std::nullopt, "", mirror);
  ASSERT_TRUE(Eventually([&] { return mirror.values() == Values{{"w/next", "1"}}; }));
  ASSERT_TRUE(PutKey(*etcd.Client(), "w/next", "2").ok());
  ASSERT_TRUE(Eventually([&] { return mirror.values() == Values{{"w/next", "2"}}; }));
  EXPECT_LE(mirror.num_changes(), 1) << "what the former one still had to tell was taken";
}

}  // namespace
}  // namespace graft
