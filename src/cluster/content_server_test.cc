// What a frontend keeps of a cluster's adapters, against a real etcd.
#include "cluster/content_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "base/sha256.h"
#include "cluster/cluster_keys.h"
#include "cluster/etcd_registry.h"
#include "cluster/presence.h"
#include "etcd/etcd_testing.h"
#include "rpc/adapter_client.h"
#include "rpc/adapter_service.h"

namespace graft {
namespace {

Result<std::string> HashOfContent(const std::string& folder) {
  Sha256 hash;
  for (const char* const file : kPeftFiles) {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(folder + "/" + file));
    hash.Update(text);
  }
  return hash.HexDigest();
}

class ContentServerTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ClusterStore::Init(*client_, "base", "test").ok());
    watcher_ = ClusterWatcher::Start(*client_, {}).value();
    const std::string folder = etcd_.folder() + "/adapter";
    std::filesystem::create_directories(folder);
    for (const char* const file : kPeftFiles) std::ofstream(folder + "/" + file) << file;
    hash_ = *HashOfContent(folder);
    ASSERT_TRUE(Store("first").Keep(hash_, folder).ok());
  }
  ContentStore Store(const std::string& name) {
    return *ContentStore::Open(etcd_.folder() + "/" + name, {}, HashOfContent);
  }
  std::unique_ptr<ContentServer> Serve(const std::string& store) {
    ContentServerOptions options;
    options.store = etcd_.folder() + "/" + store;
    options.hash_folder = HashOfContent;
    options.look_ms = 10;
    options.retry_ms = 50;
    return ContentServer::Start(options, *watcher_).value();
  }
  static std::string AddressOf(const ContentServer& server) {
    return "127.0.0.1:" + std::to_string(server.port());
  }

  TestEtcd etcd_;
  std::unique_ptr<EtcdClient> client_ = etcd_.Client();
  std::unique_ptr<ClusterWatcher> watcher_;
  std::string hash_;
};

// The first one's content comes to the second by the registry, and from there to a third after the
// first has gone.
TEST_F(ContentServerTest, AContentOutlivesWhoHadIt) {
  auto first = Serve("first");
  const auto second = Serve("second");
  EtcdRegistry registry(watcher_->store(), "test");
  ASSERT_TRUE(registry.Put({.name = "a", .hash = hash_, .path = "/a"}, false).ok());
  EXPECT_FALSE(Store("second").Find(hash_).ok());
  {
    const FrontendRecord record = {
        .id = "f", .address = "127.0.0.1:1", .contents_address = AddressOf(*first)};
    const Presence presence(watcher_->store(), FrontendKey("f"), EncodeRecord(record), {});
    ASSERT_TRUE(Eventually([&] { return Store("second").Find(hash_).ok(); }));
  }
  first.reset();
  EXPECT_TRUE(Store("third").Get(hash_, {AddressOf(*second)}).ok());
}

// Write access to the store must not give read access to the frontend's other files.
TEST_F(ContentServerTest, ALinkThatLeadsOutOfTheStoreIsNotFollowed) {
  const auto server = Serve("first");
  const std::string weights = *Store("first").Find(hash_) + "/" + kPeftFiles[1];
  std::filesystem::remove(weights);
  std::filesystem::create_symlink(etcd_.folder() + "/adapter/" + kPeftFiles[1], weights);
  const Result<std::string> got = Store("third").Get(hash_, {AddressOf(*server)});
  EXPECT_THAT(got.status().message(), testing::HasSubstr("leads out of"));
}

TEST_F(ContentServerTest, LoadsNothing) {
  const auto server = Serve("first");
  const auto client = *AdapterClient::Make(AddressOf(*server), {});
  EXPECT_EQ(client->Load({.name = "a", .path = "/a"}).status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(Store("third").Get(std::string(64, 'a'), {AddressOf(*server)}).status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace graft
