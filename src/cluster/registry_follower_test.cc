// A runner's catalog that follows a registry, and a frontend's catalog over both; without etcd.
#include "cluster/registry_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>

#include "cluster/runner_catalog.h"
#include "etcd/etcd_testing.h"

namespace graft {
namespace {

// Names and contents in memory. The test says which content a path has.
class FakeCatalog : public AdapterCatalog {
 public:
  std::vector<AdapterInfo> ListAfter(const std::string& name, size_t infos_max) const override {
    std::lock_guard lock(mutex_);
    std::vector<AdapterInfo> infos;
    for (auto it = names_.upper_bound(name); it != names_.end() && infos.size() < infos_max; ++it) {
      infos.push_back(it->second);
    }
    return infos;
  }
  Result<AdapterInfo> Find(const std::string& name) const override {
    std::lock_guard lock(mutex_);
    ++num_finds;
    const auto it = names_.find(name);
    if (it == names_.end()) return NotFoundError("no " + name);
    return it->second;
  }
  std::string NamesNear(const std::string&, const NameFilter&) const override { return ""; }
  AdapterState StateOf(const AdapterInfo&) const override { return AdapterState::kHost; }
  Result<AdapterInfo> Load(const AdapterLoad& load) override {
    std::lock_guard lock(mutex_);
    ++num_loads;
    const bool is_there =
        contents.contains(load.path) && (load.hash.empty() || contents[load.path] == load.hash);
    for (const auto& [name, info] : names_) {
      if (!is_there && info.hash == load.hash) return SetName(load.name, info);
    }
    if (!contents.contains(load.path)) return NotFoundError(load.path + " is not there");
    if (!load.hash.empty() && contents[load.path] != load.hash) {
      return FailedPreconditionError(load.path + " has other content");
    }
    AdapterInfo info;
    info.path = load.path;
    info.hash = contents[load.path];
    info.owner = load.owner;
    return SetName(load.name, info);
  }
  Status Unload(const std::string& name, const std::string& /*tenant*/) override {
    std::lock_guard lock(mutex_);
    return names_.erase(name) != 0 ? OkStatus() : NotFoundError("no " + name);
  }
  std::string HashOf(const std::string& name) const {
    const auto info = Find(name);
    return info.ok() ? info->hash : "";
  }

  std::map<std::string, std::string> contents;  // by path
  std::atomic<int> num_loads{0};
  mutable std::atomic<int> num_finds{0};

 private:
  AdapterInfo SetName(const std::string& name, AdapterInfo info) {
    info.name = name;
    return names_[name] = info;
  }

  mutable std::mutex mutex_;
  std::map<std::string, AdapterInfo> names_;
};

std::shared_ptr<const ClusterView> ViewOf(std::vector<AdapterInfo> entries) {
  auto registry = std::make_shared<RegistryView>();
  for (AdapterInfo& entry : entries) {
    const std::string name = entry.name;
    registry->adapters[name] = {1, std::move(entry)};
  }
  auto view = std::make_shared<ClusterView>();
  view->registry = registry;
  return view;
}

class RegistryFollowerTest : public testing::Test {
 protected:
  void SetUp() override {
    catalog_.contents = {{"/1", "h1"}, {"/2", "h2"}, {"/3", "h3"}};
    Start({.retry_ms = 50, .proof_ms = 700});
  }
  void Start(RegistryFollower::Options options) {
    follower_.reset();
    follower_ = std::make_unique<RegistryFollower>(
        catalog_, options,
        [this](const AdapterInfo& entry, ContentSource source) -> Result<std::string> {
          if (source == ContentSource::kFolder) return entry.path;
          if (source == ContentSource::kCopy && copies_) return "/copy/" + entry.hash.substr(1);
          if (!store_has_it_) return NotFoundError("nobody has it");
          return "/" + entry.hash.substr(1);
        },
        [this] { ++num_changes_; });
  }

  FakeCatalog catalog_;
  std::atomic<bool> store_has_it_{false};
  std::atomic<bool> copies_{false};
  std::atomic<int> num_changes_{0};
  std::unique_ptr<RegistryFollower> follower_;
};

TEST_F(RegistryFollowerTest, LoadsReplacesAndUnloadsWhatTheRegistrySays) {
  ASSERT_TRUE(catalog_.Load({.name = "own", .path = "/3"}).ok());
  follower_->Follow(ViewOf(
      {{.name = "a", .hash = "h1", .path = "/1"}, {.name = "b", .hash = "h2", .path = "/2"}}));
  EXPECT_TRUE(
      Eventually([&] { return catalog_.HashOf("a") == "h1" && catalog_.HashOf("b") == "h2"; }));
  follower_->Follow(ViewOf({{.name = "a", .hash = "h3", .path = "/3"}}));
  EXPECT_TRUE(
      Eventually([&] { return catalog_.HashOf("a") == "h3" && catalog_.HashOf("b") == ""; }));
  EXPECT_TRUE(Eventually([&] { return num_changes_ > 1; }));  // told after the names are there
  follower_->Follow(ViewOf({}));
  EXPECT_TRUE(Eventually([&] { return catalog_.HashOf("a") == ""; }));
  EXPECT_EQ(catalog_.HashOf("own"), "h3");  // it comes from the runner's own folder
}

TEST_F(RegistryFollowerTest, WhatItsFolderHasComesBackWhenANameLeavesTheRegistry) {
  ASSERT_TRUE(catalog_.Load({.name = "own", .path = "/3"}).ok());
  ASSERT_TRUE(catalog_.Load({.name = "same", .path = "/2"}).ok());
  follower_->Follow(ViewOf(
      {{.name = "own", .hash = "h1", .path = "/1"}, {.name = "same", .hash = "h2", .path = "/2"}}));
  ASSERT_TRUE(Eventually([&] { return catalog_.HashOf("own") == "h1"; }));
  follower_->Follow(ViewOf({{.name = "own", .hash = "h2", .path = "/2"}}));
  ASSERT_TRUE(Eventually([&] { return catalog_.HashOf("own") == "h2"; }));
  follower_->Follow(ViewOf({}));
  EXPECT_TRUE(Eventually([&] { return catalog_.HashOf("own") == "h3"; }));
  EXPECT_EQ(catalog_.HashOf("same"), "h2");
}

TEST_F(RegistryFollowerTest, OtherContentThanRegisteredIsNotServedUnderTheName) {
  follower_->Follow(ViewOf({{.name = "a", .hash = "h2", .path = "/1"},
                            {.name = "gone", .hash = "h9", .path = "/9"},
                            {.name = "b", .hash = "h3", .path = "/3"}}));
  EXPECT_TRUE(Eventually([&] { return catalog_.HashOf("b") == "h3"; }));  // one stops no other
  EXPECT_EQ(catalog_.HashOf("a"), "");
  // The load is tried again, and the content is found by its hash.
  store_has_it_ = true;
  EXPECT_TRUE(Eventually([&] { return catalog_.HashOf("a") == "h2"; }));
  EXPECT_EQ(catalog_.HashOf("gone"), "");
}

// Real time, in which no wait is long and each is counted.
class HastyWorld : public EtcdWorld {
 public:
  int64_t NowNs() const override { return Real().NowNs(); }
  std::unique_ptr<Thread> Start(std::function<void()> run) override {
    return Real().Start(std::move(run));
  }
  bool WaitFor(std::unique_lock<std::mutex>& lock, std::condition_variable& wake, int64_t,
               const std::function<bool()>& holds) override {
    ++num_waits;
    return Real().WaitFor(lock, wake, 1'000'000, holds);
  }
  std::atomic<int> num_waits{0};
};

// Twice a second for ten thousand names would be much work for nothing.
TEST_F(RegistryFollowerTest, WhileNothingChangesNoNameIsLookedAtButThoseThatFailed) {
  HastyWorld world;
  Start({.retry_ms = 3'600'000, .whole_look_ms = 3'600'000, .world = &world});
  std::vector<AdapterInfo> entries = {{.name = "gone", .hash = "h9", .path = "/9"}};
  for (int i = 0; i < 300; ++i) {
    entries.push_back({.name = "a" + std::to_string(i), .hash = "h1", .path = "/1"});
  }
  follower_->Follow(ViewOf(entries));
  ASSERT_TRUE(Eventually([&] { return catalog_.HashOf("a99") == "h1" && num_changes_ > 0; }));
  const int finds_before = catalog_.num_finds;
  const int waits_before = world.num_waits;
  ASSERT_TRUE(Eventually([&] { return world.num_waits > waits_before + 20; }));
  const int num_looks = world.num_waits - waits_before;
  EXPECT_LE(catalog_.num_finds - finds_before, num_looks + 1) << "one name is not served";
  follower_.reset();
}

TEST_F(RegistryFollowerTest, WhatIsLoadedIsServedFromACopy) {
  copies_ = true;
  catalog_.contents["/copy/1"] = "h1";
  follower_->Follow(ViewOf({{.name = "a", .hash = "h1", .path = "/1"}}));
  EXPECT_TRUE(Eventually([&] {
    const auto info = catalog_.Find("a");
    return info.ok() && info->path == "/copy/1";
  }));
  // An adapter that cannot be copied is served all the same.
  follower_->Follow(ViewOf({{.name = "a", .hash = "h2", .path = "/2"}}));
  EXPECT_TRUE(Eventually([&] { return catalog_.HashOf("a") == "h2"; }));
}

// The runner that learned it has its name before the registry does.
TEST_F(RegistryFollowerTest, WhatWasLearnedGoesWithItsName) {
  ASSERT_TRUE(catalog_.Load({.name = "ft:a", .path = "/1", .owner = "t"}).ok());
  const AdapterInfo learned = {.name = "ft:a", .hash = "h1", .path = "/1", .owner = "t"};
  const AdapterInfo elsewhere = {.name = "ft:b", .hash = "h2", .path = "/2", .owner = "t"};
  follower_->Follow(ViewOf({learned}));
  ASSERT_TRUE(Eventually([&] { return num_changes_ == 1; })) << "frontends hear of it";
  follower_->Follow(ViewOf({learned, elsewhere}));
  ASSERT_TRUE(Eventually([&] { return catalog_.HashOf("ft:b") == "h2"; }));
  EXPECT_EQ(catalog_.Find("ft:b")->owner, "t") << "it is loaded from the folder of learning";
  follower_->Follow(ViewOf({}));
  EXPECT_TRUE(
      Eventually([&] { return catalog_.HashOf("ft:a") == "" && catalog_.HashOf("ft:b") == ""; }));
}

// Runners do not tell which tenant owns an adapter.
TEST(RunnerCatalogTest, WhatRunnersLearnedIsNotListedByThem) {
  RunnerCatalog catalog("base");
  ListedAdapter learned, own;
  learned.info = {.name = "ft:base:1", .hash = "h1", .rank_max = 4};
  own.info = {.name = "own", .hash = "h2", .rank_max = 8};
  catalog.SetRunner(0, {learned, own});
  EXPECT_EQ(catalog.List().size(), 1U);
  EXPECT_FALSE(catalog.Find("ft:base:1").ok());
  EXPECT_EQ(catalog.NamesNear("ft:base:2", {}).find("ft:"), std::string::npos);
  EXPECT_TRUE(catalog.HasContent("h1")) << "requests are placed by it";
  EXPECT_EQ(catalog.RankOf("h1"), 4);
}

// Nor which tenants may use what a source has.
TEST(RunnerCatalogTest, WhatWasLookedUpIsNoHint) {
  RunnerCatalog catalog("base");
  ListedAdapter looked_up;
  looked_up.info = {.name = "hub/org/one", .hash = "h1", .rank_max = 4, .is_looked_up = true};
  catalog.SetRunner(0, {looked_up});
  EXPECT_TRUE(catalog.Find("hub/org/one").ok());
  EXPECT_EQ(catalog.NamesNear("hub/org/ona", {}).find("hub"), std::string::npos);
}

// For requests that began with it and may come from a runner that dies.
TEST_F(RegistryFollowerTest, WhatANameLedToStaysForAWhile) {
  Start({.former_ms = 5000});
  follower_->Follow(ViewOf({{.name = "a", .hash = "h1", .path = "/1"}}));
  ASSERT_TRUE(Eventually([&] { return catalog_.HashOf("a") == "h1"; }));
  follower_->Follow(ViewOf({{.name = "a", .hash = "h2", .path = "/2"}}));
  ASSERT_TRUE(Eventually([&] { return catalog_.HashOf("a") == "h2"; }));
  EXPECT_EQ(catalog_.HashOf("content:h1"), "h1");
  follower_->Follow(ViewOf({}));
  ASSERT_TRUE(Eventually([&] { return catalog_.HashOf("a") == ""; }));
  EXPECT_EQ(catalog_.HashOf("content:h2"), "h2");
  EXPECT_TRUE(Eventually([&] { return catalog_.List().empty(); }));
}

TEST_F(RegistryFollowerTest, OfManyFormerContentsTheNewestStay) {
  Start({.formers_max = 2});
  for (const char* const content : {"1", "2", "3", "1"}) {
    const std::string hash = std::string("h") + content;
    follower_->Follow(ViewOf({{.name = "a", .hash = hash, .path = std::string("/") + content}}));
    ASSERT_TRUE(Eventually([&] { return catalog_.HashOf("a") == hash; }));
  }
  EXPECT_TRUE(Eventually([&] { return catalog_.HashOf("content:h1") == ""; }));
  EXPECT_EQ(catalog_.HashOf("content:h2"), "h2");
  EXPECT_EQ(catalog_.HashOf("content:h3"), "h3");
}

TEST_F(RegistryFollowerTest, AContentIsRecalledFromWhereverItIs) {
  ASSERT_TRUE(catalog_.Load({.name = "own", .path = "/3"}).ok());
  const auto recall = [this](const std::string& hash, const std::string& path) {
    return follower_->Recall({.path = path, .hash = hash});
  };
  EXPECT_EQ(recall("h1", "/1")->name, "content:h1");  // where it lay
  EXPECT_EQ(recall("h3", "")->hash, "h3");            // loaded already
  const Status nowhere = recall("h2", "/1").status();
  EXPECT_EQ(nowhere.message(), "/1 has other content; and nobody has it");
  store_has_it_ = true;
  EXPECT_EQ(recall("h2", "/1")->path, "/2");
  EXPECT_EQ(num_changes_, 3);
  EXPECT_EQ(catalog_.List().size(), 4u);
}

TEST_F(RegistryFollowerTest, AProofTakesNoNameAndGoesByItself) {
  follower_->Follow(ViewOf({{.name = "a", .hash = "h1", .path = "/1"}}));
  ASSERT_TRUE(Eventually([&] { return catalog_.HashOf("a") == "h1"; }));
  const auto proof = follower_->Prove({.name = "a", .path = "/2"});
  ASSERT_TRUE(proof.ok());
  EXPECT_EQ(proof->hash, "h2");
  EXPECT_EQ(proof->name, "a");
  EXPECT_EQ(catalog_.HashOf("a"), "h1");
  EXPECT_EQ(catalog_.HashOf("proof:a"), "h2");
  EXPECT_EQ(follower_->Prove({.name = "a", .path = "/9"}).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(Eventually([&] { return catalog_.HashOf("proof:a") == ""; }));
  EXPECT_EQ(catalog_.HashOf("a"), "h1");
}

}  // namespace
}  // namespace graft
