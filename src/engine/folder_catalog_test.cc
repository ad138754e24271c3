#include "engine/folder_catalog.h"

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/file.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kReadAll = int64_t{1} << 40;

// An adapter's content is its config file's text; "bad" does not load.
class FakeBackend : public AdapterBackend {
 public:
  Result<std::string> Hash(const std::string& path) override {
    ++num_hashes_;
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path + "/adapter_config.json"));
    return "hash of " + text;
  }
  Result<AdapterFacts> Read(const std::string& path) override {
    ASSIGN_OR_RETURN(const std::string hash, Hash(path));
    if (hash == "hash of bad") return InvalidArgumentError("bad adapter");
    ++num_reads_;
    host_.insert(hash);
    if (while_reading_) while_reading_(hash);
    ASSIGN_OR_RETURN(AdapterTextPtr text, ReadText(path));
    return AdapterFacts{.hash = hash,
                        .base_model = "base",
                        .rank_max = 8,
                        .bytes = 100,
                        .text = std::move(text),
                        .changes_nothing = hash == "hash of idle",
                        .left_out = hash == "hash of idle" ? "its head" : ""};
  }

  // Knows an earlier version's hashes.
  Result<std::string> HashAs(const std::string& path, const std::string& hash) override {
    ASSIGN_OR_RETURN(std::string own, Hash(path));
    return hash == "former " + own ? hash : own;
  }
  Result<AdapterFacts> ReadAs(const std::string& path, const std::string& hash) override {
    ASSIGN_OR_RETURN(AdapterFacts facts, Read(path));
    if (hash != "former " + facts.hash) return facts;
    facts.hash = hash;
    facts.text = nullptr;
    facts.leaves_texts_out = true;
    return facts;
  }

  // The file's text is its template.
  Result<AdapterTextPtr> ReadText(const std::string& path) override {
    const Result<std::string> text = ReadFile(path + "/chat_template.jinja");
    if (!text.ok()) return AdapterTextPtr();
    if (*text == "bad") return InvalidArgumentError("bad template");
    return ShareAdapterText({.chat_template = *text});
  }

  bool Has(const std::string& hash) const override { return host_.contains(hash); }

  void SetPriority(const std::string& hash, int32_t priority) override {
    priorities_[hash] = priority;
  }

  std::map<std::string, int32_t> priorities_;
  std::set<std::string> host_;  // read and not dropped since
  std::atomic<int> num_hashes_ = 0;
  std::atomic<int> num_reads_ = 0;
  std::function<void(const std::string& hash)> while_reading_;
};

class FolderCatalogTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("graft_catalog_" + std::to_string(getpid())) / "adapters";
    fs::create_directories(root_);
    registry_ = *SqliteRegistry::Open(":memory:");
    catalog_ = Make();
  }
  void TearDown() override { fs::remove_all(root_.parent_path()); }

  std::unique_ptr<FolderCatalog> Make() {
    return std::make_unique<FolderCatalog>(table_, backend_, *registry_, FolderJail(root_, {}),
                                           "base");
  }
  Result<AdapterInfo> Load(const std::string& name, const std::string& path, bool replace = false,
                           const std::string& tenant = "") {
    return catalog_->Load({.name = name, .path = path, .replace = replace, .tenant = tenant});
  }
  void Write(const std::string& folder, const std::string& content) {
    fs::create_directories(root_ / folder);
    std::ofstream(root_ / folder / "adapter_config.json") << content;
  }

  void WriteWeights(const std::string& folder, size_t bytes) {
    std::ofstream(root_ / folder / "adapter_model.safetensors") << std::string(bytes, 'w');
  }
  // Recycles the contents that are no longer held, as the engine does.
  void Recycle() {
    for (const int32_t content : table_.TakeUnused()) table_.Recycle(content);
  }

  fs::path root_;
  FakeBackend backend_;
  ContentTable table_{3};
  std::unique_ptr<SqliteRegistry> registry_;
  std::unique_ptr<FolderCatalog> catalog_;
};

TEST_F(FolderCatalogTest, NamesAreAliasesOfContent) {
  Write("a", "one");
  Write("copy", "one");
  EXPECT_EQ(Load("x", "a")->hash, "hash of one");
  EXPECT_TRUE(Load("y", "copy").ok());
  EXPECT_EQ(backend_.num_reads_, 1);
  EXPECT_EQ(catalog_->List().size(), 2u);
  EXPECT_TRUE(catalog_->Unload("x", "").ok());
  EXPECT_TRUE(table_.Contains("hash of one"));
  EXPECT_TRUE(catalog_->Unload("y", "").ok());
  EXPECT_FALSE(table_.Contains("hash of one"));
  EXPECT_EQ(catalog_->Unload("y", "").code(), StatusCode::kNotFound);
}

TEST_F(FolderCatalogTest, WhatAnEarlierVersionRememberedIsServedWithItsTextsNow) {
  Write("a", "one");
  std::ofstream(root_ / "a" / "chat_template.jinja") << "hello";
  ASSERT_TRUE(Load("x", "a").ok());
  AdapterInfo entry = registry_->List()->front();
  entry.hash = "former hash of one";
  ASSERT_TRUE(registry_->Put(entry, /*replace=*/true).ok());
  ContentTable table(3);
  FolderCatalog next(table, backend_, *registry_, FolderJail(root_, {}), "base");
  EXPECT_EQ(next.RestoreFromRegistry()->num_loaded, 1);
  EXPECT_EQ(next.Find("x")->hash, "hash of one");
  EXPECT_EQ(next.Find("x")->text->chat_template, "hello");
  EXPECT_EQ(registry_->List()->front().hash, "hash of one");
}

TEST_F(FolderCatalogTest, AskedForByAnEarlierVersionsHashItHasNoTexts) {
  Write("a", "one");
  std::ofstream(root_ / "a" / "chat_template.jinja") << "hello";
  const auto former =
      catalog_->Load({.name = "x", .path = "a", .tenant = "", .hash = "former hash of one"});
  ASSERT_TRUE(former.ok()) << former.status().ToString();
  EXPECT_EQ(former->hash, "former hash of one");
  EXPECT_EQ(former->text, nullptr);
  EXPECT_TRUE(registry_->ListFolders()->empty()) << "the folder itself has another hash";
  EXPECT_EQ(Load("x", "a", /*replace=*/true)->text->chat_template, "hello");
}

TEST_F(FolderCatalogTest, ReplacingKeepsTheOldContentForItsRequests) {
  Write("a", "one");
  Write("b", "two");
  ASSERT_TRUE(Load("x", "a").ok());
  EXPECT_TRUE(Load("x", "a").ok()) << "the same again is fine";
  ContentLease lease = *table_.Acquire("hash of one");
  EXPECT_EQ(Load("x", "b").status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Load("x", "b", true)->hash, "hash of two");
  EXPECT_EQ(table_.SourceOf(lease.content()).hash, "hash of one");
  EXPECT_EQ(table_.Acquire("hash of one").status().code(), StatusCode::kNotFound);
  lease.Release();
  Recycle();
  EXPECT_EQ(table_.num_contents(), 1);
}

// A load that says which content it wants gets that one, as long as a name leads to it.
TEST_F(FolderCatalogTest, AContentIsLoadedByItsHash) {
  const auto load = [this](const std::string& name, const std::string& path,
                           const std::string& hash) {
    return catalog_->Load({.name = name, .path = path, .replace = true, .hash = hash});
  };
  Write("a", "one");
  EXPECT_EQ(load("x", "a", "hash of two").status().code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(catalog_->Find("x").ok());
  ASSERT_TRUE(load("x", "a", "hash of one").ok());
  Write("a", "two");
  EXPECT_EQ(load("kept", "", "hash of one")->hash, "hash of one");
  EXPECT_EQ(load("x", "a", "hash of two")->hash, "hash of two");
  EXPECT_EQ(load("y", "a", "hash of one")->hash, "hash of one") << "the folder has another";
  EXPECT_EQ(load("y", "none", "hash of one")->hash, "hash of one");
  EXPECT_EQ(backend_.num_reads_, 2);
  EXPECT_TRUE(catalog_->Unload("kept", "").ok());
  EXPECT_TRUE(catalog_->Unload("y", "").ok());
  EXPECT_EQ(load("y", "", "hash of one").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(load("y", "none", "hash of one").status().code(), StatusCode::kNotFound);
}

TEST_F(FolderCatalogTest, FailuresChangeNothing) {
  Write("a", "one");
  Write("bad", "bad");
  ASSERT_TRUE(Load("x", "a").ok());
  EXPECT_EQ(Load("x", "bad", true).status().message(), "bad adapter");
  EXPECT_EQ(catalog_->Find("x")->hash, "hash of one");
  EXPECT_EQ(Load("y", "../..").status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(Load("y", "none").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(Load("base", "a").ok());
  EXPECT_FALSE(Load("", "a").ok());
  EXPECT_FALSE(Load("a b", "a").ok());
  EXPECT_EQ(table_.num_contents(), 1);
}

TEST_F(FolderCatalogTest, FullTableIsSaidAndFreesUp) {
  for (const std::string name : {"a", "b", "c", "d"}) Write(name, name);
  for (const std::string name : {"a", "b", "c"}) ASSERT_TRUE(Load(name, name).ok());
  EXPECT_EQ(Load("d", "d").status().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(catalog_->Unload("b", "").ok());
  Recycle();
  EXPECT_TRUE(Load("d", "d").ok());
}

TEST_F(FolderCatalogTest, FindNamesTheNearest) {
  Write("austen", "one");
  ASSERT_TRUE(Load("austen", "austen").ok());
  EXPECT_EQ(catalog_->Find("austin").status().code(), StatusCode::kNotFound);
  const Status status = NoSuchAdapter(*catalog_, "austin");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("'austen'"), std::string::npos);
  EXPECT_NE(catalog_->Unload("austin", "").message().find("'austen'"), std::string::npos);
  EXPECT_EQ(catalog_->NamesNear("bass", {}), "'base'");
  EXPECT_EQ(catalog_->NamesNear("austin", [](const std::string& name) { return name == "base"; }),
            "");
  ASSERT_TRUE(catalog_->Unload("austen", "").ok());
  EXPECT_EQ(catalog_->NamesNear("austin", {}), "");
}

TEST_F(FolderCatalogTest, RestoresWhatHasNotChanged) {
  Write("a", "one");
  Write("b", "two");
  Write("c", "three");
  for (const std::string name : {"a", "b", "c"}) {
    ASSERT_TRUE(Load("my-" + name, name).ok());
    ASSERT_TRUE(catalog_->Unload(name, "").code() == StatusCode::kNotFound);
  }
  catalog_.reset();
  for (const std::string hash : {"hash of one", "hash of two", "hash of three"})
    table_.Retire(hash);
  Recycle();
  const int reads = backend_.num_reads_;
  const int hashes = backend_.num_hashes_;
  Write("b", "changed");
  fs::remove_all(root_ / "c");
  catalog_ = Make();
  const auto report = catalog_->RestoreFromRegistry();
  EXPECT_EQ(report->num_loaded, 1);
  EXPECT_EQ(report->num_skipped, 2);
  EXPECT_EQ(backend_.num_reads_, reads) << "files that were not written since are not read again";
  EXPECT_EQ(backend_.num_hashes_, hashes + 1) << "the one that was written";
  EXPECT_EQ(catalog_->Find("my-a")->hash, "hash of one");
  EXPECT_EQ(catalog_->Find("my-a")->rank_max, 8);
  EXPECT_FALSE(catalog_->Find("my-b").ok());
}

TEST_F(FolderCatalogTest, ARememberedNameServesNoOtherContent) {
  Write("a", "one");
  ASSERT_TRUE(catalog_->LoadFolder(kReadAll).ok());
  EXPECT_TRUE(registry_->List()->empty());
  // "a" is listed already; now a client asks to load it.
  ASSERT_TRUE(Load("a", "a").ok());
  ASSERT_EQ(registry_->List()->size(), 1u);
  Write("a", "changed");
  for (const int64_t read_bytes_max : {int64_t{0}, kReadAll}) {
    catalog_ = Make();
    EXPECT_EQ(catalog_->RestoreFromRegistry()->num_skipped, 1);
    const auto report = catalog_->LoadFolder(read_bytes_max);
    EXPECT_EQ(report->num_loaded + report->num_listed, 0);
    EXPECT_FALSE(catalog_->Find("a").ok());
  }
  ASSERT_TRUE(Load("a", "a").ok());
  EXPECT_EQ(registry_->List()->front().hash, "hash of changed");
  catalog_ = Make();
  EXPECT_EQ(catalog_->RestoreFromRegistry()->num_loaded, 1);
}

TEST_F(FolderCatalogTest, WhoseLoadItWasSurvivesARestart) {
  const auto restart = [this] {
    catalog_.reset();
    registry_ = *SqliteRegistry::Open(root_.parent_path() / "registry.db");
    catalog_ = Make();
    ASSERT_EQ(catalog_->RestoreFromRegistry()->num_skipped, 0);
    ASSERT_TRUE(catalog_->LoadFolder(0).ok());
  };
  const auto tenant = [this](const std::string& name) { return catalog_->Find(name)->tenant; };
  Write("a", "one");
  restart();
  EXPECT_EQ(Load("x", "a", false, "alice")->tenant, "alice");
  EXPECT_EQ(Load("y", "a", false, "bob")->tenant, "bob") << "one content, two loads";
  EXPECT_EQ(tenant("x"), "alice");
  EXPECT_EQ(tenant("a"), "") << "found at start, loaded by nobody";
  restart();
  EXPECT_EQ(tenant("x"), "alice");
  EXPECT_EQ(tenant("y"), "bob");
  EXPECT_EQ(tenant("a"), "");
  EXPECT_EQ(Load("x", "a", false, "carol")->tenant, "carol") << "who asked last";
  EXPECT_EQ(Load("a", "a", false, "carol")->tenant, "carol") << "asked for now";
  EXPECT_EQ(tenant("x"), "carol");
  // The file's hash, not its time stamp, shows that the content has not changed.
  const fs::path config = root_ / "a" / "adapter_config.json";
  fs::last_write_time(config, fs::last_write_time(config) + std::chrono::seconds(1));
  restart();
  EXPECT_EQ(tenant("x"), "carol");
  EXPECT_EQ(tenant("a"), "carol");
  EXPECT_EQ(tenant("y"), "bob");
}

TEST_F(FolderCatalogTest, ForgetsFoldersThatWereDeletedAndNoOthers) {
  const auto known = [this] {
    std::vector<std::string> paths;
    const std::vector<RegistryFolder> folders = *registry_->ListFolders();
    for (const RegistryFolder& folder : folders) paths.push_back(folder.path);
    return paths;
  };
  const auto restart = [this] {
    catalog_ = Make();
    ASSERT_TRUE(catalog_->RestoreFromRegistry().ok());
    ASSERT_TRUE(catalog_->LoadFolder(0).ok());
  };
  Write("here", "one");
  fs::create_directories(root_ / "disk");
  fs::create_symlink(root_ / "away", root_ / "link");
  for (const std::string path : {"deleted", "team/deleted", "disk/away", "link"}) {
    ASSERT_TRUE(registry_->RememberFolder({.path = root_ / path, .stamp = "1:1;none;"}).ok());
  }
  ASSERT_TRUE(registry_->RememberFolder({.path = "/elsewhere/a", .stamp = "1:1;none;"}).ok());
  restart();
  const std::vector<std::string> doubtful = {"/elsewhere/a", root_ / "disk/away", root_ / "link"};
  EXPECT_EQ(known(), doubtful);
  // The disk that holds all adapters is away.
  for (const char* name : {"here", "disk", "link"}) fs::remove_all(root_ / name);
  restart();
  EXPECT_EQ(known(), doubtful);
}

TEST_F(FolderCatalogTest, WhatOnlyTheRegistryKnowsCanBeUnloaded) {
  Write("a", "one");
  ASSERT_TRUE(Load("x", "a").ok());
  fs::remove_all(root_ / "a");
  catalog_ = Make();
  EXPECT_EQ(catalog_->RestoreFromRegistry()->num_skipped, 1);
  EXPECT_EQ(registry_->List()->size(), 1u) << "it may come back";
  EXPECT_TRUE(catalog_->Unload("x", "").ok());
  EXPECT_TRUE(registry_->List()->empty());
  EXPECT_EQ(catalog_->Unload("x", "").code(), StatusCode::kNotFound);
}

TEST_F(FolderCatalogTest, LoadsAFolderAndSkipsTheBroken) {
  Write("a", "one");
  Write("b", "bad");
  fs::create_directories(root_ / "not-an-adapter");
  const auto report = catalog_->LoadFolder(kReadAll);
  EXPECT_EQ(report->num_loaded, 1);
  EXPECT_EQ(report->num_skipped, 1);
  EXPECT_EQ(catalog_->NameOf("hash of one"), "a");
  EXPECT_EQ(catalog_->NameOf("0123456789abcdef"), "0123456789ab");
  EXPECT_EQ(catalog_->NameOf("unread " + root_.string()), "unread");
  EXPECT_TRUE(registry_->List()->empty()) << "the folder itself remembers";
}

TEST_F(FolderCatalogTest, ListsAFolderWithoutReadingIt) {
  Write("a", "one");
  Write("b", "bad");
  WriteWeights("a", 10);
  const auto report = catalog_->LoadFolder(/*read_bytes_max=*/9);
  EXPECT_EQ(report->num_listed, 2);
  EXPECT_EQ(backend_.num_hashes_, 0);
  const AdapterInfo unread = *catalog_->Find("a");
  EXPECT_EQ(unread.hash, "");
  EXPECT_TRUE(table_.Contains(unread.key()));
  EXPECT_EQ(catalog_->NameOf(unread.key()), "a");
  // The first request for it reads the folder.
  catalog_->OnRead(unread.key(), *backend_.Read(root_ / "a"));
  EXPECT_EQ(catalog_->Find("a")->hash, "hash of one");
  EXPECT_EQ(catalog_->Find("a")->key(), "hash of one");
  EXPECT_TRUE(table_.Contains("hash of one"));
  EXPECT_TRUE(table_.Contains(unread.key())) << "for who looked before";
  EXPECT_EQ(catalog_->NameOf("hash of one"), "a");
  // After a restart the catalog knows the hash without reading.
  table_.Retire("hash of one");
  table_.Retire(catalog_->Find("b")->key());
  Recycle();
  catalog_ = Make();
  EXPECT_TRUE(catalog_->RestoreFromRegistry().ok());
  EXPECT_EQ(catalog_->LoadFolder(9)->num_listed, 2);
  EXPECT_EQ(catalog_->Find("a")->hash, "hash of one");
  EXPECT_EQ(catalog_->Find("a")->bytes, 100);
  EXPECT_EQ(catalog_->Find("b")->hash, "");
}

TEST_F(FolderCatalogTest, TellsWhereAnAdapterIs) {
  Write("a", "one");
  ASSERT_TRUE(catalog_->LoadFolder(0).ok());
  const auto state = [this] { return catalog_->StateOf(*catalog_->Find("a")); };
  EXPECT_EQ(state(), AdapterState::kUnread);
  // What the engine does for the first request.
  const std::string key = catalog_->Find("a")->key();
  ContentLease lease = *table_.Acquire(key);
  table_.SetPlace(lease.content(), AdapterPlace::kLoading);
  EXPECT_EQ(state(), AdapterState::kLoading);
  catalog_->OnRead(key, *backend_.Read(root_ / "a"));
  EXPECT_EQ(state(), AdapterState::kLoading) << "not on the device yet";
  table_.SetPlace(lease.content(), AdapterPlace::kResident);
  EXPECT_EQ(state(), AdapterState::kResident);
  table_.SetPlace(lease.content(), AdapterPlace::kElsewhere);
  EXPECT_EQ(state(), AdapterState::kHost);
  backend_.host_.clear();
  EXPECT_EQ(state(), AdapterState::kFolder);
}

TEST_F(FolderCatalogTest, APriorityIsANamesWhateverItLeadsTo) {
  Write("a", "one");
  Write("b", "two");
  catalog_->SetPriorities({{"a", 5}, {"x", 7}, {"y", -3}});
  ASSERT_TRUE(catalog_->LoadFolder(0).ok());
  EXPECT_TRUE(backend_.priorities_.empty()) << "nobody knows a hash yet";
  catalog_->OnRead(catalog_->Find("a")->key(), *backend_.Read(root_ / "a"));
  EXPECT_EQ(backend_.priorities_["hash of one"], 5);
  ASSERT_TRUE(Load("x", "a").ok());
  EXPECT_EQ(backend_.priorities_["hash of one"], 7) << "the highest of its names";
  ASSERT_TRUE(Load("x", "b", true).ok());
  EXPECT_EQ(backend_.priorities_["hash of one"], 5);
  EXPECT_EQ(backend_.priorities_["hash of two"], 7);
  ASSERT_TRUE(Load("y", "b").ok());
  ASSERT_TRUE(catalog_->Unload("x", "").ok());
  EXPECT_EQ(backend_.priorities_["hash of two"], -3) << "y's alone";
  ASSERT_TRUE(catalog_->Unload("y", "").ok());
  ASSERT_TRUE(catalog_->Unload("a", "").ok());
  EXPECT_EQ(backend_.priorities_["hash of one"], 0);
  EXPECT_EQ(backend_.priorities_["hash of two"], 0);
}

TEST_F(FolderCatalogTest, AnUnreadAdapterCanBeLoadedReplacedAndUnloaded) {
  Write("a", "one");
  Write("b", "two");
  WriteWeights("a", 10);
  ASSERT_TRUE(catalog_->LoadFolder(0).ok());
  const std::string key = catalog_->Find("a")->key();
  EXPECT_EQ(Load("a", "a")->hash, "hash of one");
  EXPECT_FALSE(table_.Contains(key));
  EXPECT_EQ(Load("b", "a").status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Load("b", "a", true)->hash, "hash of one");
  EXPECT_EQ(table_.num_contents(), 3) << "two of them wait to be recycled";
  Recycle();
  EXPECT_EQ(table_.num_contents(), 1);
  EXPECT_TRUE(catalog_->Unload("a", "").ok());
  EXPECT_TRUE(catalog_->Unload("b", "").ok());
  EXPECT_FALSE(table_.Contains("hash of one"));
  // A request's read of it ends only now, and finds no name to tell of.
  catalog_->OnRead(key, AdapterFacts{.hash = "hash of one"});
  EXPECT_FALSE(table_.Contains("hash of one"));
}

// A request's fetch ends while a client loads the same folder. Both have read the same content.
TEST_F(FolderCatalogTest, ALoadBesideTheFirstReadKeepsTheName) {
  Write("x", "one");
  fs::create_directory_symlink(root_ / "x", root_ / "y");
  ASSERT_TRUE(catalog_->LoadFolder(0).ok());
  const std::string key = catalog_->Find("x")->key();
  const ContentLease in_flight = *table_.Acquire(key);
  backend_.while_reading_ = [&](const std::string& hash) {
    catalog_->OnRead(key, {.hash = hash, .base_model = "base", .rank_max = 8, .bytes = 100});
  };
  ASSERT_TRUE(Load("x", "x").ok());
  EXPECT_EQ(catalog_->Find("x")->key(), "hash of one");
  EXPECT_TRUE(table_.Contains("hash of one"));
  backend_.while_reading_ = nullptr;
  EXPECT_TRUE(catalog_->Unload("x", "").ok());
  EXPECT_EQ(catalog_->Find("y")->key(), "hash of one");
  EXPECT_TRUE(table_.Contains("hash of one")) << "y leads to it";
  EXPECT_TRUE(catalog_->Unload("y", "").ok());
  EXPECT_FALSE(table_.Contains("hash of one"));
}

TEST_F(FolderCatalogTest, ALoadRepairsANameWhoseContentIsGone) {
  Write("a", "one");
  ASSERT_TRUE(Load("x", "a").ok());
  table_.Retire("hash of one");
  ASSERT_TRUE(Load("x", "a").ok());
  EXPECT_TRUE(table_.Contains("hash of one"));
}

TEST_F(FolderCatalogTest, ThreadsReadFoldersWhileTheyAreLoadedAndUnloaded) {
  for (const std::string name : {"a", "b"}) Write(name, name);
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(catalog_->LoadFolder(0).ok());
    const std::string key_a = catalog_->Find("a")->key();
    const std::string key_b = catalog_->Find("b")->key();
    std::thread reader([&] {
      catalog_->OnRead(key_a, {.hash = "hash of a", .rank_max = 8, .bytes = 100});
      catalog_->OnRead(key_b, {.hash = "hash of b", .rank_max = 8, .bytes = 100});
    });
    EXPECT_TRUE(Load("a", "a").ok());
    EXPECT_TRUE(catalog_->Unload("b", "").ok());
    reader.join();
    EXPECT_TRUE(table_.Contains(catalog_->Find("a")->key()));
    EXPECT_TRUE(catalog_->Unload("a", "").ok());
    Recycle();
    ASSERT_EQ(table_.num_contents(), 0) << "round " << round;
  }
}

TEST_F(FolderCatalogTest, AContentIsReadFromAFolderThatANameLeadsTo) {
  Write("a", "one");
  Write("b", "one");
  const auto path = [this] {
    const ContentLease lease = *table_.Acquire("hash of one");
    return fs::path(table_.SourceOf(lease.content()).path).filename().string();
  };
  ASSERT_TRUE(Load("x", "a").ok());
  ASSERT_TRUE(Load("y", "b").ok());
  EXPECT_EQ(path(), "b") << "just looked at";
  ASSERT_TRUE(Load("x", "a").ok());
  EXPECT_EQ(path(), "a") << "just looked at again";
  ASSERT_TRUE(catalog_->Unload("x", "").ok());
  EXPECT_EQ(path(), "b") << "the other may be deleted now";
  ASSERT_TRUE(Load("y", "a").ok()) << "the same content needs no replacing";
  EXPECT_EQ(path(), "a");
  EXPECT_EQ(fs::path(catalog_->Find("y")->path).filename(), "a");
  ASSERT_EQ(registry_->List()->size(), 1u);
  EXPECT_EQ(fs::path(registry_->List()->front().path).filename(), "a");
  EXPECT_EQ(backend_.num_reads_, 1);
}

// A simulator's clock may differ from this machine's.
TEST_F(FolderCatalogTest, AdaptersAreListedAtTheTimeOfTheClockThatWasPassedIn) {
  Write("loaded", "one");
  Write("unread", "two");
  WriteWeights("unread", 1);
  int64_t now = 1000;
  FolderCatalog catalog(table_, backend_, *registry_, FolderJail(root_, {}), "base",
                        [&] { return now; });
  ASSERT_TRUE(catalog.LoadFolder(0).ok());
  EXPECT_EQ(catalog.Find("unread")->loaded_at, 1000);
  now = 2000;
  EXPECT_EQ(catalog.Load({.name = "a", .path = "loaded"})->loaded_at, 2000);
  EXPECT_EQ(catalog.Find("a")->loaded_at, 2000);
}

TEST_F(FolderCatalogTest, RestoresNothingThatCouldNotBeLoaded) {
  Write("in/a", "one");
  Write("in/b", "two");
  Write("out/c", "three");
  ASSERT_TRUE(Load("a", "in/a").ok());
  ASSERT_TRUE(Load("narrow", "in/b").ok());
  ASSERT_TRUE(Load("c", "out/c").ok());
  ContentTable table(10);
  FolderCatalog narrow(table, backend_, *registry_, FolderJail(root_ / "in", {}), "narrow");
  const auto report = narrow.RestoreFromRegistry();
  EXPECT_EQ(report->num_loaded, 1);
  EXPECT_EQ(report->num_skipped, 2) << "outside of the folder, and the base model's name";
  EXPECT_TRUE(narrow.Find("a").ok());
}

TEST_F(FolderCatalogTest, ALinkOutOfTheFolderIsNotListed) {
  fs::create_directories(root_.parent_path() / "outside");
  std::ofstream(root_.parent_path() / "outside" / "adapter_config.json") << "secret";
  fs::create_directory_symlink(root_.parent_path() / "outside", root_ / "link");
  Write("a", "one");
  fs::create_directory_symlink(root_ / "a", root_ / "b");
  EXPECT_EQ(catalog_->LoadFolder(0)->num_listed, 2);
  EXPECT_FALSE(catalog_->Find("link").ok());
  EXPECT_EQ(catalog_->Find("a")->key(), catalog_->Find("b")->key());
}

TEST_F(FolderCatalogTest, AFileOutOfTheFolderIsNotRead) {
  std::ofstream(root_.parent_path() / "secret") << "secret";
  Write("a", "one");
  fs::create_symlink(root_.parent_path() / "secret", root_ / "a" / "adapter_model.safetensors");
  EXPECT_EQ(Load("x", "a").status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(catalog_->LoadFolder(kReadAll)->num_loaded, 0);
  EXPECT_EQ(backend_.num_reads_, 0);
  // Links into a shared folder, as in a hub's cache.
  std::ofstream(root_ / "blob") << "weights";
  fs::remove(root_ / "a" / "adapter_model.safetensors");
  fs::create_symlink(root_ / "blob", root_ / "a" / "adapter_model.safetensors");
  EXPECT_TRUE(Load("x", "a").ok());
}

TEST_F(FolderCatalogTest, WhatAnAdapterSaysOfTextsIsKnownBeforeItIsRead) {
  const auto write = [&](const std::string& folder, const std::string& text) {
    Write(folder, folder);
    std::ofstream(root_ / folder / "chat_template.jinja") << text;
  };
  write("a", "hello");
  write("b", "bad");
  Write("c", "c");
  const auto text_of = [&](const std::string& name) { return catalog_->Find(name)->text; };
  EXPECT_EQ(catalog_->LoadFolder(0)->num_listed, 2);
  EXPECT_FALSE(catalog_->Find("b").ok());
  EXPECT_EQ(text_of("c"), nullptr);
  EXPECT_EQ(text_of("a")->chat_template, "hello");
  EXPECT_EQ(backend_.num_reads_, 0);
  // A request reads it, after the file has changed.
  write("a", "good day");
  catalog_->OnRead(catalog_->Find("a")->key(), *backend_.Read(root_ / "a"));
  EXPECT_EQ(text_of("a")->chat_template, "good day");
  ASSERT_TRUE(Load("x", "a").ok());
  EXPECT_EQ(text_of("x"), text_of("a"));
  // The next start knows the folder by its stamp, of which the template is a part.
  ContentTable table(10);
  const auto start = [&] {
    FolderCatalog next(table, backend_, *registry_, FolderJail(root_, {}), "base");
    EXPECT_TRUE(next.RestoreFromRegistry().ok());
    return next.Find("x")->text->chat_template;
  };
  EXPECT_EQ(start(), "good day");
}

// And what it leaves out. The log tells of it each time.
TEST_F(FolderCatalogTest, ThatAnAdapterChangesNothingIsKnownWithoutReadingItAgain) {
  Write("a", "idle");
  Write("b", "one");
  EXPECT_EQ(catalog_->LoadFolder(kReadAll)->num_loaded, 2);
  const auto known = [&] {
    return std::pair(catalog_->Find("a")->changes_nothing, catalog_->Find("b")->changes_nothing);
  };
  EXPECT_EQ(known(), std::pair(true, false));
  EXPECT_TRUE(Load("x", "a")->changes_nothing);
  ContentTable table(10);
  const int num_reads = backend_.num_reads_;
  FolderCatalog next(table, backend_, *registry_, FolderJail(root_, {}), "base");
  EXPECT_TRUE(next.RestoreFromRegistry().ok());
  EXPECT_EQ(next.LoadFolder(0)->num_listed, 2);
  EXPECT_EQ(backend_.num_reads_, num_reads);
  EXPECT_TRUE(next.Find("a")->changes_nothing && next.Find("x")->changes_nothing);
  EXPECT_EQ(next.Find("a")->left_out, "its head");
  EXPECT_EQ(next.Find("b")->left_out, "");
  EXPECT_FALSE(next.Find("b")->changes_nothing);
}

TEST_F(FolderCatalogTest, StampsTellWhatLiesBesideTheWeights) {
  Write("a", "one");
  const std::string bare = FolderJail(root_, {}).StampOf(root_ / "a");
  for (const char* file : {"chat_template.jinja", "generation_config.json", "tokenizer.json"}) {
    std::ofstream(root_ / "a" / file) << "{}";
    EXPECT_NE(FolderJail(root_, {}).StampOf(root_ / "a"), bare) << file;
    fs::remove(root_ / "a" / file);
    EXPECT_EQ(FolderJail(root_, {}).StampOf(root_ / "a"), bare);
    std::ofstream(root_ / "a" / file) << "{}";
    const FolderJail without(root_, {}, "", /*takes_texts=*/false);
    EXPECT_EQ(without.StampOf(root_ / "a"), bare) << file;
    fs::remove(root_ / "a" / file);
  }
}

TEST_F(FolderCatalogTest, TextsBehindLinksThatLeaveTheFolderAreIgnored) {
  Write("a", "one");
  Write("b", "two");
  fs::create_directories(root_.parent_path() / "base");
  std::ofstream(root_.parent_path() / "base" / "secret") << "secret";
  const auto link = [&](const char* file) {
    fs::create_symlink(root_.parent_path() / "base" / "secret", root_ / "a" / file);
  };
  link("chat_template.jinja");
  link("tokenizer.json");
  std::ofstream(root_ / "b" / "chat_template.jinja") << "hi";
  fs::create_symlink(root_ / "b" / "chat_template.jinja", root_ / "a" / "added_tokens.json");
  EXPECT_EQ(FolderJail(root_, {}).TextsOutside(root_ / "a"),
            (std::vector<std::string>{"chat_template.jinja", "tokenizer.json"}));
  EXPECT_TRUE(Load("x", "a").ok());
  EXPECT_EQ(catalog_->LoadFolder(0)->num_skipped, 0);
  const auto wider = FolderJail(root_, {root_.parent_path() / "base"});
  EXPECT_TRUE(wider.TextsOutside(root_ / "a").empty());
  // Weights stay inside.
  fs::remove(root_ / "a" / "adapter_model.safetensors");
  link("adapter_model.safetensors");
  EXPECT_EQ(Load("y", "a").status().code(), StatusCode::kPermissionDenied);
}

TEST_F(FolderCatalogTest, FoldersThatAreAlmostAdaptersAreNamed) {
  Write("x/checkpoint-10", "one");
  Write("x/mine", "two");
  fs::create_directories(root_ / "nothing" / "in");
  fs::create_directories(root_ / "y");
  WriteWeights("y", 10);
  auto found = FolderJail(root_, {}).Find();
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->refused.size(), 2u);
  std::sort(found->refused.begin(), found->refused.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  EXPECT_EQ(found->refused[1].name, "y");
  EXPECT_NE(found->refused[1].why.message().find("no adapter_config.json"), std::string::npos);
  EXPECT_EQ(found->refused[0].name, "x");
  EXPECT_NE(found->refused[0].why.message().find("checkpoint-10, mine"), std::string::npos);
  EXPECT_TRUE(Load("mine", "x/mine").ok());
}

TEST_F(FolderCatalogTest, AnAddressIsNotFetched) {
  for (const char* address : {"hf://o/austen", "s3://bucket/x", "https://host/x"}) {
    const Status status = Load("x", address).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << address;
    EXPECT_NE(status.message().find("nothing is fetched"), std::string::npos) << address;
    EXPECT_EQ(FolderJail("", {}).Resolve(address).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(FolderJailTest, WithoutAnAdaptersFolderThePathsLeft) {
  EXPECT_EQ(FolderJail("", {}).Resolve("a").status().code(), StatusCode::kFailedPrecondition);
  const FolderJail with_sources("", {}, "", true, {"/srv/fetched"});
  const Status status = with_sources.Resolve("other/carroll").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("--allow"), std::string::npos) << status.message();
}

TEST_F(FolderCatalogTest, ListsPieceByPiece) {
  Write("a", "one");
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(Load(name, "a").ok());
  EXPECT_EQ(catalog_->List().size(), 3u);
  const std::vector<AdapterInfo> first = catalog_->ListAfter("", 2);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].name, "a");
  const std::vector<AdapterInfo> rest = catalog_->ListAfter(first.back().name, 2);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].name, "c");
  EXPECT_TRUE(catalog_->ListAfter("c", 2).empty());
}

TEST_F(FolderCatalogTest, LinksMayLeadIntoFoldersThatTheOperatorNames) {
  const fs::path store = root_.parent_path() / "store";
  fs::create_directories(store / "a");
  std::ofstream(store / "a" / "adapter_config.json") << "one";
  fs::create_directory_symlink(store / "a", root_ / "link");
  EXPECT_EQ(Load("x", "link").status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(catalog_->LoadFolder(0)->num_skipped, 1);
  FolderCatalog wider(table_, backend_, *registry_, FolderJail(root_, {store}), "base");
  EXPECT_EQ(wider.LoadFolder(0)->num_listed, 1);
  EXPECT_TRUE(wider.Load({.name = "x", .path = "link"}).ok());
  EXPECT_TRUE(wider.Load({.name = "y", .path = store / "a"}).ok());
  EXPECT_EQ(wider.Load({.name = "z", .path = "../secret"}).status().code(),
            StatusCode::kPermissionDenied);
}

// The layout of huggingface_hub: a snapshot's files are links into blobs/.
TEST_F(FolderCatalogTest, AHubsCacheIsServedByTheNamesOfItsRepositories) {
  const auto fetch = [&](const std::string& folder, const std::string& revision,
                         const std::string& content) {
    const fs::path snapshot = root_ / folder / "snapshots" / revision;
    fs::create_directories(snapshot);
    fs::create_directories(root_ / folder / "blobs");
    std::ofstream(root_ / folder / "blobs" / revision) << content;
    fs::create_symlink("../../blobs/" + revision, snapshot / "adapter_config.json");
  };
  fetch("models--org--one", "r1", "one");
  fetch("models--two", "r1", "old");
  fetch("models--two", "r2", "two");
  fs::create_directories(root_ / "models--two" / "refs");
  std::ofstream(root_ / "models--two" / "refs" / "main") << "r2\n";
  fs::create_directories(root_ / "models--org--base" / "snapshots" / "r1");
  std::ofstream(root_ / "models--org--base" / "snapshots" / "r1" / "config.json") << "{}";
  const auto report = catalog_->LoadFolder(kReadAll);
  EXPECT_EQ(report->num_loaded, 2);
  EXPECT_EQ(report->num_skipped, 0) << "a base model is no adapter that was refused";
  EXPECT_EQ(catalog_->Find("org/one")->hash, "hash of one");
  EXPECT_EQ(catalog_->Find("two")->hash, "hash of two");
  EXPECT_EQ(Load("by folder", "models--two").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Load("old", "models--two/snapshots/r1")->hash, "hash of old");
  EXPECT_EQ(Load("by id", "org/one").status().code(), StatusCode::kInvalidArgument) << "a space";
  EXPECT_EQ(Load("by-id", "org/one")->hash, "hash of one");
  EXPECT_EQ(Load("org/one", "org/one")->hash, "hash of one");
  EXPECT_EQ(Load("two", "two")->hash, "hash of two");
  EXPECT_EQ(Load("none", "org/none").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(catalog_->Unload("by-id", "").ok());
  fs::remove_all(root_ / "models--two" / "refs");
  EXPECT_EQ(Load("two", "models--two").status().code(), StatusCode::kNotFound) << "which of two?";
  std::ofstream(root_.parent_path() / "secret") << "secret";
  fs::create_directories(root_ / "models--two" / "refs");
  fs::create_symlink(root_.parent_path() / "secret", root_ / "models--two" / "refs" / "main");
  EXPECT_EQ(Load("two", "models--two").status().code(), StatusCode::kPermissionDenied);
}

// A folder that cannot be looked into is not taken for one without an adapter. (The test uses a
// link to itself: reading it fails for root, too, which may read any folder.)
TEST_F(FolderCatalogTest, AFolderThatCannotBeReadIsRefusedAndCounted) {
  Write("good", "one");
  fs::create_directories(root_ / "loop");
  fs::create_symlink("adapter_config.json", root_ / "loop" / "adapter_config.json");
  fs::create_directories(root_ / "no adapter");
  const auto report = catalog_->LoadFolder(0);
  EXPECT_EQ(report->num_listed, 1);
  EXPECT_EQ(report->num_skipped, 1);
  ASSERT_EQ(chmod((root_ / "good").c_str(), 0), 0);
  const int user = setfsuid(getuid() == 0 ? 65534 : getuid());
  const auto found = FolderJail(root_, {}).Find();
  setfsuid(static_cast<uid_t>(user));
  ASSERT_EQ(chmod((root_ / "good").c_str(), 0700), 0);
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  ASSERT_EQ(found->refused.size(), 2u);
  EXPECT_TRUE(found->folders.empty());
}

// The table has room for two contents, and for what four threads retire before it is recycled.
// LoRA and a prompt under one graft.json; what is no adapter yet has neither this nor a config.
TEST_F(FolderCatalogTest, BundlesAreFoundAndStampedByAllTheirFiles) {
  const std::string bundle = root_ / "bundle";
  fs::create_directories(bundle + "/lora");
  fs::create_directories(bundle + "/prompt");
  const auto write = [&](const std::string& file, const std::string& text) {
    std::ofstream(bundle + "/" + file) << text;
  };
  write("lora/adapter_config.json", "lora");
  write("lora/adapter_model.safetensors", "12345");
  write("prompt/adapter_model.safetensors", "678");
  const auto found = [&] { return FolderJail(root_, {}).Find()->folders; };
  const auto is_bundle = [](const auto& folder) { return folder.name == "bundle"; };
  EXPECT_TRUE(std::ranges::none_of(found(), is_bundle));
  write("graft.json", "{}");
  const auto folders = found();
  const auto listed = std::ranges::find_if(folders, is_bundle);
  ASSERT_NE(listed, folders.end());
  EXPECT_EQ(listed->weight_bytes, 8);
  for (const char* file : {"prompt/adapter_model.safetensors", "lora/adapter_config.json"}) {
    const std::string before = FolderJail(root_, {}).StampOf(bundle);
    write(file, "longer than it was");
    EXPECT_NE(FolderJail(root_, {}).StampOf(bundle), before) << file;
  }
  // A link out of the folder is refused, of the two folders as well.
  fs::remove_all(bundle + "/lora");
  fs::create_directory_symlink("/tmp", bundle + "/lora");
  EXPECT_TRUE(std::ranges::none_of(found(), is_bundle));
  EXPECT_TRUE(std::ranges::any_of(FolderJail(root_, {}).Find()->refused, is_bundle));
}

TEST_F(FolderCatalogTest, ThreadsLoadAndFind) {
  ContentTable table(16);
  FolderCatalog catalog(table, backend_, *registry_, FolderJail(root_, {}), "base");
  Write("a", "one");
  Write("b", "two");
  std::vector<std::thread> threads;
  std::mutex recycling;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 50; ++round) {
        const std::string name = "n" + std::to_string(i);
        EXPECT_TRUE(
            catalog.Load({.name = name, .path = round % 2 == 0 ? "a" : "b", .replace = true}).ok());
        EXPECT_TRUE(catalog.Find(name).ok());
        catalog.List();
        {
          std::lock_guard lock(recycling);  // one thread recycles at a time
          for (const int32_t content : table.TakeUnused()) table.Recycle(content);
        }
        if (round % 5 == 0) {
          EXPECT_TRUE(catalog.Unload(name, "").ok());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(catalog.List().size(), 4u);
  EXPECT_TRUE(table.Contains("hash of two")) << "all four end on 'two'";
  EXPECT_FALSE(table.Contains("hash of one"));
}

}  // namespace
}  // namespace graft
