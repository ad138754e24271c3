#include "engine/adapter_catalog.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "base/file.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

// An adapter's content is its config file's text; "bad" does not load.
class FakeBackend : public AdapterBackend {
 public:
  Result<std::string> Hash(const std::string& path) override {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path + "/adapter_config.json"));
    return "hash of " + text;
  }
  Result<AdapterFacts> Load(AdapterSlot slot, const std::string& path) override {
    ASSIGN_OR_RETURN(const std::string hash, Hash(path));
    if (hash == "hash of bad") return InvalidArgumentError("bad adapter");
    std::lock_guard lock(mutex_);
    CHECK(content_.emplace(slot, hash).second) << "slot " << slot << " was not freed";
    ++num_loads_;
    return AdapterFacts{.hash = hash, .base_model = "base", .rank_max = 8, .bytes = 100};
  }
  void Free(AdapterSlot slot) override {
    std::lock_guard lock(mutex_);
    content_.erase(slot);
  }

  std::mutex mutex_;
  std::map<AdapterSlot, std::string> content_;
  int num_loads_ = 0;
};

class AdapterCatalogTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("graft_catalog_" + std::to_string(getpid())) / "adapters";
    fs::create_directories(root_);
    registry_ = *AdapterRegistry::Open(":memory:");
    catalog_ = Make();
  }
  void TearDown() override { fs::remove_all(root_.parent_path()); }

  std::unique_ptr<EngineAdapterCatalog> Make() {
    return std::make_unique<EngineAdapterCatalog>(table_, backend_, *registry_, root_, "base");
  }
  void Write(const std::string& folder, const std::string& content) {
    fs::create_directories(root_ / folder);
    std::ofstream(root_ / folder / "adapter_config.json") << content;
  }

  fs::path root_;
  FakeBackend backend_;
  AdapterTable table_{3, [this](int32_t slot) { backend_.Free(slot); }};
  std::unique_ptr<AdapterRegistry> registry_;
  std::unique_ptr<EngineAdapterCatalog> catalog_;
};

TEST_F(AdapterCatalogTest, NamesAreAliasesOfContent) {
  Write("a", "one");
  Write("copy", "one");
  EXPECT_EQ(catalog_->Load("x", "a", false)->hash, "hash of one");
  EXPECT_TRUE(catalog_->Load("y", "copy", false).ok());
  EXPECT_EQ(backend_.num_loads_, 1);
  EXPECT_EQ(catalog_->List().size(), 2u);
  EXPECT_TRUE(catalog_->Unload("x").ok());
  EXPECT_TRUE(table_.Contains("hash of one"));
  EXPECT_TRUE(catalog_->Unload("y").ok());
  EXPECT_FALSE(table_.Contains("hash of one"));
  EXPECT_TRUE(backend_.content_.empty());
  EXPECT_EQ(catalog_->Unload("y").code(), StatusCode::kNotFound);
}

TEST_F(AdapterCatalogTest, ReplacingKeepsTheOldContentForItsRequests) {
  Write("a", "one");
  Write("b", "two");
  ASSERT_TRUE(catalog_->Load("x", "a", false).ok());
  EXPECT_TRUE(catalog_->Load("x", "a", false).ok()) << "the same again is fine";
  AdapterLease lease = *table_.Acquire("hash of one");
  EXPECT_EQ(catalog_->Load("x", "b", false).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(catalog_->Load("x", "b", true)->hash, "hash of two");
  EXPECT_EQ(backend_.content_.at(lease.slot()), "hash of one");
  EXPECT_EQ(table_.Acquire("hash of one").status().code(), StatusCode::kNotFound);
  lease.Release();
  EXPECT_EQ(backend_.content_.size(), 1u);
}

TEST_F(AdapterCatalogTest, FailuresChangeNothing) {
  Write("a", "one");
  Write("bad", "bad");
  ASSERT_TRUE(catalog_->Load("x", "a", false).ok());
  EXPECT_EQ(catalog_->Load("x", "bad", true).status().message(), "bad adapter");
  EXPECT_EQ(catalog_->Find("x")->hash, "hash of one");
  EXPECT_EQ(catalog_->Load("y", "../..", false).status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(catalog_->Load("y", "none", false).status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(catalog_->Load("base", "a", false).ok());
  EXPECT_FALSE(catalog_->Load("", "a", false).ok());
  EXPECT_FALSE(catalog_->Load("a b", "a", false).ok());
  EXPECT_EQ(table_.num_taken(), 1);
}

TEST_F(AdapterCatalogTest, FullTableIsSaidAndFreesUp) {
  for (const std::string name : {"a", "b", "c", "d"}) Write(name, name);
  for (const std::string name : {"a", "b", "c"})
    ASSERT_TRUE(catalog_->Load(name, name, false).ok());
  EXPECT_EQ(catalog_->Load("d", "d", false).status().code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(catalog_->Unload("b").ok());
  EXPECT_TRUE(catalog_->Load("d", "d", false).ok());
}

TEST_F(AdapterCatalogTest, FindNamesTheNearest) {
  Write("austen", "one");
  ASSERT_TRUE(catalog_->Load("austen", "austen", false).ok());
  const Status status = catalog_->Find("austin").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("'austen'"), std::string::npos);
}

TEST_F(AdapterCatalogTest, RestoresWhatHasNotChanged) {
  Write("a", "one");
  Write("b", "two");
  Write("c", "three");
  for (const std::string name : {"a", "b", "c"}) {
    ASSERT_TRUE(catalog_->Load("my-" + name, name, false).ok());
    ASSERT_TRUE(catalog_->Unload(name).code() == StatusCode::kNotFound);
  }
  catalog_.reset();
  for (const std::string hash : {"hash of one", "hash of two", "hash of three"})
    table_.Retire(hash);
  Write("b", "changed");
  fs::remove_all(root_ / "c");
  catalog_ = Make();
  const auto report = catalog_->RestoreFromRegistry();
  EXPECT_EQ(report->num_loaded, 1);
  EXPECT_EQ(report->num_skipped, 2);
  EXPECT_TRUE(catalog_->Find("my-a").ok());
  EXPECT_FALSE(catalog_->Find("my-b").ok());
}

TEST_F(AdapterCatalogTest, LoadsAFolderAndSkipsTheBroken) {
  Write("a", "one");
  Write("b", "bad");
  fs::create_directories(root_ / "not-an-adapter");
  const auto report = catalog_->LoadFolder();
  EXPECT_EQ(report->num_loaded, 1);
  EXPECT_EQ(report->num_skipped, 1);
  EXPECT_EQ(catalog_->NameOf("hash of one"), "a");
  EXPECT_EQ(catalog_->NameOf("0123456789abcdef"), "0123456789ab");
  EXPECT_TRUE(registry_->List()->empty()) << "the folder itself remembers";
}

TEST_F(AdapterCatalogTest, ThreadsLoadAndFind) {
  Write("a", "one");
  Write("b", "two");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        const std::string name = "n" + std::to_string(i);
        EXPECT_TRUE(catalog_->Load(name, round % 2 == 0 ? "a" : "b", true).ok());
        EXPECT_TRUE(catalog_->Find(name).ok());
        catalog_->List();
        if (round % 5 == 0) {
          EXPECT_TRUE(catalog_->Unload(name).ok());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(catalog_->List().size(), 4u);
  EXPECT_EQ(backend_.content_.size(), 1u) << "all four end on 'two'";
}

}  // namespace
}  // namespace graft
