// Adapters that travel from one machine's service into another's store, over the loopback.
#include "cluster/content_store.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "base/file.h"
#include "base/sha256.h"
#include "rpc/adapter_client.h"
#include "rpc/adapter_service.h"

namespace graft {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

Result<std::string> HashOf(const std::string& folder) {
  Sha256 hash;
  const bool is_bundle = FileExists(folder + "/" + kBundleManifest);
  for (size_t file = 0; file < kAdapterFiles; ++file) {
    const std::string path = folder + "/" + AdapterFileName(file);
    const bool is_needed = !is_bundle && file < kPeftFiles.size();
    if (!is_needed && !FileExists(path)) continue;
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    hash.Update(text);
  }
  return hash.HexDigest();
}

using Folders = std::map<std::string, std::string>;  // by hash

// One machine with adapters.
class Peer {
 public:
  explicit Peer(Folders folders, std::optional<FileJail> jail = {}) : folders_(std::move(folders)) {
    service_ = std::make_unique<AdapterService>(
        AdapterService::Handlers{[](const AdapterLoad& load) -> Result<AdapterInfo> {
                                   if (load.path != "good")
                                     return FailedPreconditionError("it fails its self-test");
                                   AdapterInfo info;
                                   info.name = load.name;
                                   info.hash = "h-" + load.tenant;
                                   info.rank_max = 8;
                                   return info;
                                 },
                                 [this](const std::string& hash) -> Result<std::string> {
                                   ++num_reads;
                                   std::this_thread::sleep_for(std::chrono::milliseconds(50));
                                   const auto it = folders_.find(hash);
                                   if (it == folders_.end()) return NotFoundError("not here");
                                   return it->second;
                                 },
                                 std::move(jail)});
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_->grpc_service());
    server_ = builder.BuildAndStart();
  }
  ~Peer() { server_->Shutdown(std::chrono::system_clock::now()); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  std::atomic<int> num_reads{0};

 private:
  const Folders folders_;
  int port_ = 0;
  std::unique_ptr<AdapterService> service_;
  std::unique_ptr<grpc::Server> server_;
};

class ContentStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "graft_store_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    source_ = Write("source", "{}", std::string(3 * kAdapterChunkBytes + 17, 'w'));
    hash_ = *HashOf(source_);
  }
  void TearDown() override { fs::remove_all(root_); }

  std::string Write(const std::string& name, const std::string& config,
                    const std::string& weights) {
    const std::string folder = root_ + "/" + name;
    fs::create_directories(folder);
    std::ofstream(folder + "/" + kPeftFiles[0], std::ios::binary) << config;
    std::ofstream(folder + "/" + kPeftFiles[1], std::ios::binary) << weights;
    return folder;
  }
  ContentStore Store() { return *ContentStore::Open(root_ + "/store", {}, HashOf); }

  std::string root_, source_, hash_;
};

TEST_F(ContentStoreTest, FetchesOnceHoweverManyAsk) {
  Peer without(Folders{});
  Peer with(Folders{{hash_, source_}});
  const ContentStore store = Store();
  const ContentStore of_another_process = Store();
  std::vector<Result<std::string>> got(4, Result<std::string>(InternalError("")));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&, i] {
      got[i] =
          (i % 2 == 0 ? store : of_another_process).Get(hash_, {without.address(), with.address()});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& folder : got) {
    ASSERT_TRUE(folder.ok()) << folder.status().ToString();
    EXPECT_EQ(*HashOf(*folder), hash_);
  }
  EXPECT_EQ(with.num_reads, static_cast<int>(kPeftFiles.size() + kAdapterTextFiles.size()));
  EXPECT_TRUE(store.Get(hash_, {}).ok());  // it is in the store already
}

// Write access to a folder of adapters must not give read access to this machine's other files.
TEST_F(ContentStoreTest, ALinkThatLeadsOutOfTheFoldersIsNotFollowed) {
  std::ofstream(root_ + "/secret") << "the machine's own";
  fs::create_directories(root_ + "/adapters/blobs");
  const std::string folder = Write("adapters/linked", "{}", "");
  const std::string weights = folder + "/" + kPeftFiles[1];
  fs::remove(weights);
  fs::create_symlink("../../secret", weights);
  Peer jailed(Folders{{hash_, folder}}, FileJail({root_ + "/adapters"}));
  const Result<std::string> got = Store().Get(hash_, {jailed.address()});
  EXPECT_THAT(got.status().message(), HasSubstr("leads out of"));
  // The hub's layout has links inside.
  fs::rename(source_ + "/" + kPeftFiles[1], root_ + "/adapters/blobs/weights");
  fs::remove(weights);
  fs::create_symlink("../blobs/weights", weights);
  Peer linked(Folders{{hash_, folder}}, FileJail({root_ + "/adapters"}));
  EXPECT_TRUE(Store().Get(hash_, {linked.address()}).ok());
}

TEST_F(ContentStoreTest, GoesOnWhereItBrokeOffAndBeginsAnewWhereThatWasWrong) {
  Peer with(Folders{{hash_, source_}});
  const ContentStore store = Store();
  const std::string part = root_ + "/store/fetching/" + hash_;
  fs::create_directories(part);
  std::ofstream(part + "/" + kPeftFiles[1], std::ios::binary) << std::string(1000, 'w');
  ASSERT_TRUE(store.Get(hash_, {with.address()}).ok());

  // The download goes on from what was there, so only the hash can show what is wrong in it.
  fs::remove_all(store.contents() + "/" + hash_);
  fs::create_directories(part);
  std::ofstream(part + "/" + kPeftFiles[1], std::ios::binary) << std::string(1000, 'x');
  const auto wrong = store.Get(hash_, {with.address()});
  EXPECT_EQ(wrong.status().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(FileExists(part));
  EXPECT_TRUE(store.Get(hash_, {with.address()}).ok());
}

// Without LoRA, with it, and from a store that keeps it to another one.
TEST_F(ContentStoreTest, ABundleComesWithItsFolders) {
  const std::string bundle = root_ + "/bundle";
  Write("bundle/prompt", "prompt", std::string(kAdapterChunkBytes + 5, 'p'));
  std::ofstream(bundle + "/" + kBundleManifest) << "{}";
  for (const bool has_lora : {false, true}) {
    if (has_lora) Write("bundle/lora", "lora", "rows");
    const std::string hash = *HashOf(bundle);
    const ContentStore keeper = *ContentStore::Open(root_ + "/keeper", {}, HashOf);
    const Result<std::string> kept = keeper.Keep(hash, bundle);
    ASSERT_TRUE(kept.ok()) << kept.status().ToString();
    Peer with(Folders{{hash, *kept}});
    const Result<std::string> got = Store().Get(hash, {with.address()});
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_EQ(*HashOf(*got), hash);
    EXPECT_EQ(FileExists(*got + "/lora"), has_lora);
    EXPECT_FALSE(FileExists(*got + "/" + kPeftFiles[0]));
  }
}

TEST_F(ContentStoreTest, WhatLiesBesideTheWeightsComesWithThem) {
  std::ofstream(source_ + "/chat_template.jinja") << "hi";
  fs::create_directories(source_ + "/additional_chat_templates");
  std::ofstream(source_ + "/additional_chat_templates/tool_use.jinja") << "tools";
  std::ofstream(source_ + "/tokenizer.json") << "stays where it is";
  const std::string hash = *HashOf(source_);
  const ContentStore keeper = *ContentStore::Open(root_ + "/keeper", {}, HashOf);
  const Result<std::string> kept = keeper.Keep(hash, source_);
  ASSERT_TRUE(kept.ok()) << kept.status().ToString();
  Peer with(Folders{{hash, *kept}});
  const Result<std::string> got = Store().Get(hash, {with.address()});
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_EQ(*ReadFile(*got + "/additional_chat_templates/tool_use.jinja"), "tools");
  EXPECT_FALSE(FileExists(*got + "/generation_config.json"));
  EXPECT_FALSE(FileExists(*got + "/tokenizer.json"));
}

TEST_F(ContentStoreTest, ByAnEarlierVersionsHashItIsKeptAndFetchedWithoutTexts) {
  std::ofstream(source_ + "/chat_template.jinja") << "hi";
  ASSERT_NE(*HashOf(source_), hash_);
  Peer with(Folders{{hash_, source_}});
  const Result<std::string> got = Store().Get(hash_, {with.address()});
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  const ContentStore keeper = *ContentStore::Open(root_ + "/keeper", {}, HashOf);
  const Result<std::string> kept = keeper.Keep(hash_, source_);
  ASSERT_TRUE(kept.ok()) << kept.status().ToString();
  for (const std::string& folder : {*got, *kept}) {
    EXPECT_EQ(*HashOf(folder), hash_);
    EXPECT_FALSE(FileExists(folder + "/chat_template.jinja"));
  }
  EXPECT_TRUE(FileExists(source_ + "/chat_template.jinja"));
}

TEST_F(ContentStoreTest, WhatIsKeptStaysWhatItIs) {
  const ContentStore store = Store();
  EXPECT_EQ(store.Find(hash_).status().code(), StatusCode::kNotFound);
  const auto kept = store.Keep(hash_, source_);
  ASSERT_TRUE(kept.ok()) << kept.status().ToString();
  Write("source", "{}", "something else");
  EXPECT_EQ(*HashOf(*kept), hash_);
  EXPECT_EQ(*store.Find(hash_), *kept);
  EXPECT_EQ(*store.Keep(hash_, root_ + "/none"), *kept);
  const std::string other(64, 'a');
  EXPECT_EQ(store.Keep(other, source_).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(store.Keep(other, root_ + "/none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store.Keep("../etc", source_).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(store.Find(other).status().code(), StatusCode::kNotFound);
}

TEST_F(ContentStoreTest, WhatNobodyWantsIsRemovedOnceItIsOld) {
  const ContentStore store = Store();
  const auto age = [&store](const std::string& hash) {
    fs::last_write_time(store.contents() + "/" + hash,
                        fs::file_time_type::clock::now() - std::chrono::hours(1));
  };
  const std::string other = Write("other", "{}", "other");
  const std::string other_hash = *HashOf(other);
  ASSERT_TRUE(store.Keep(hash_, source_).ok());
  ASSERT_TRUE(store.Keep(other_hash, other).ok());
  EXPECT_EQ(store.Sweep({}, kContentGrace), 0);  // both are new
  age(hash_);
  age(other_hash);
  EXPECT_EQ(store.Sweep({hash_}, kContentGrace), 1);
  EXPECT_TRUE(store.Find(hash_).ok());
  EXPECT_FALSE(store.Find(other_hash).ok());
  EXPECT_EQ(store.Sweep({}, kContentGrace), 0);  // another process wanted it just now
  age(hash_);
  EXPECT_EQ(store.Sweep({}, kContentGrace), 1);
  EXPECT_FALSE(store.Find(hash_).ok());
}

TEST_F(ContentStoreTest, WhatCannotBeHadSaysWhy) {
  const std::string other = Write("other", "{}", "other");
  Peer liar(Folders{{hash_, other}});
  Peer without(Folders{});
  const ContentStore store = Store();
  EXPECT_EQ(store.Get(hash_, {without.address()}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store.Get(hash_, {}).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(store.Get(hash_, {liar.address()}).status().message(),
              HasSubstr("has other content than it says"));
  EXPECT_THAT(store.Get(hash_, {"127.0.0.1:1"}).status().message(), HasSubstr("does not answer"));
  EXPECT_EQ(store.Get("../etc", {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(FileExists(store.contents() + "/" + hash_));
}

TEST_F(ContentStoreTest, ALoadSaysWhatTheOtherMachineFound) {
  Peer peer(Folders{});
  const auto client = *AdapterClient::Make(peer.address(), {});
  const auto info = client->Load({.name = "a", .path = "good", .tenant = "t"});
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_EQ(info->hash, "h-t");
  EXPECT_EQ(info->rank_max, 8);
  const Status refused = client->Load({.name = "a", .path = "bad"}).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("self-test"));
}

}  // namespace
}  // namespace graft
