#include "sources/hub_fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/strings.h"
#include "sources/hub_cache.h"
#include "sources/hub_client.h"
#include "sources/web_testing.h"

namespace graft {
namespace hub_fetch_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "hf_planted_secret";
const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

std::string GitSha1(const std::string& bytes) {
  const auto digest = BlobDigest::Make(DigestKind::kGitSha1, std::ssize(bytes));
  digest->Update(bytes);
  return digest->Finish();
}

// A repository org/name with the files that the test sets; files over 100 bytes are LFS ones on a
// CDN.
class HubFetchTest : public ::testing::Test {
 protected:
  HubFetchTest()
      : cdn_([this](const AskedOfWeb& asked) { return OfCdn(asked); }),
        hub_([this](const AskedOfWeb& asked) { return OfHub(asked); }) {
    folder_ = ::testing::TempDir() + "hub_fetch_" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    settings_.endpoint = *ParseWebUrl(hub_.Url(""));
    settings_.endpoint.target.clear();
    settings_.cache = folder_;
    files_["config.json"] = "{}";
    files_["model.safetensors"] = std::string(size_t{9} << 13, 'w');
    files_["README.md"] = "words";
    files_["original/consolidated.00.pth"] = "pickle";
  }
  ~HubFetchTest() override { fs::remove_all(folder_); }

  ScriptedReply OfCdn(const AskedOfWeb& asked) {
    if (on_cdn_) {
      if (auto reply = on_cdn_(asked); reply.has_value()) return *reply;
    }
    return ScriptedWeb::Bytes(asked, files_.at(asked.target.substr(1, asked.target.find('?') - 1)));
  }

  ScriptedReply OfHub(const AskedOfWeb& asked) {
    if (on_hub_) {
      if (auto reply = on_hub_(asked); reply.has_value()) return *reply;
    }
    const std::string target = asked.target.substr(0, asked.target.find('?'));
    if (target == "/api/models/org/name/revision/main") {
      return {.body = R"({"sha":")" + kCommit + "\"}"};
    }
    if (target == "/api/models/org/name/tree/" + kCommit) return {.body = Tree()};
    const std::string resolve = "/org/name/resolve/" + kCommit + "/";
    if (!target.starts_with(resolve)) {
      return {.status = 404, .headers = {{"X-Error-Code", "RevisionNotFound"}}};
    }
    const std::string path = PercentDecode(target.substr(resolve.size()));
    if (files_.at(path).size() <= 100) return ScriptedWeb::Bytes(asked, files_.at(path));
    return {.status = 302, .headers = {{"Location", cdn_.Url("/" + path + "?signature=planted")}}};
  }

  std::string Tree() const {
    Json rows = Json::array();
    for (const auto& [path, bytes] : files_) {
      Json row = {
          {"type", "file"}, {"path", path}, {"size", bytes.size()}, {"oid", GitSha1(bytes)}};
      if (bytes.size() > 100) row["lfs"] = {{"oid", Sha256Of(bytes)}, {"size", bytes.size()}};
      rows.push_back(row);
    }
    return rows.dump();
  }

  Result<HubSnapshot> Fetch(HubKind kind = HubKind::kModel, const std::string& name = "org/name") {
    DownloadOptions options{.part_bytes = 64 << 10};
    options.patience.sleep = [](int64_t) {};
    options.connections_max = connections_;
    return FetchFromHub(settings_, *ParseHubName(name), kind, options);
  }

  std::map<std::string, std::string> files_;
  std::function<std::optional<ScriptedReply>(const AskedOfWeb&)> on_hub_, on_cdn_;
  ScriptedWeb cdn_, hub_;
  HubSettings settings_;
  int connections_ = 3;
  std::string folder_;
};

TEST_F(HubFetchTest, LaysFilesOutAsTheClientDoes) {
  settings_.token = Secret(kToken);
  const Result<HubSnapshot> snapshot = Fetch();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  const std::string repo = folder_ + "/models--org--name";
  EXPECT_EQ(snapshot->path, repo + "/snapshots/" + kCommit);
  EXPECT_EQ(*ReadFile(snapshot->path + "/model.safetensors"), files_["model.safetensors"]);
  EXPECT_EQ(fs::read_symlink(snapshot->path + "/config.json"), "../../blobs/" + GitSha1("{}"));
  EXPECT_EQ(*ReadFile(repo + "/refs/main"), kCommit);
  EXPECT_TRUE(FileExists(repo + "/.no_exist/" + kCommit + "/chat_template.jinja"));
  EXPECT_TRUE(FileExists(folder_ + "/.locks/models--org--name/" + GitSha1("{}") + ".lock"));
  EXPECT_FALSE(FileExists(snapshot->path + "/README.md"));
  EXPECT_FALSE(FileExists(snapshot->path + "/original"));
  EXPECT_FALSE(FileExists(repo + "/trees"));  // of which a client would miss README.md
  EXPECT_EQ(std::distance(fs::directory_iterator(repo + "/blobs"), {}), 2);
  for (const AskedOfWeb& asked : hub_.asked()) {
    EXPECT_EQ(asked.headers.at("authorization"), std::string("Bearer ") + kToken);
  }
  ASSERT_FALSE(cdn_.asked().empty());
  for (const AskedOfWeb& asked : cdn_.asked()) {
    EXPECT_FALSE(asked.headers.contains("authorization"));
  }
  // All is there: no byte is fetched again.
  const size_t num_asked = cdn_.asked().size();
  EXPECT_EQ(Fetch()->fetched_bytes, 0);
  EXPECT_EQ(cdn_.asked().size(), num_asked);
  settings_.is_offline = true;
  EXPECT_EQ(Fetch()->path, snapshot->path);
}

TEST_F(HubFetchTest, CutsCostNoByteTwice) {
  int64_t sent = 0;
  on_cdn_ = [&](const AskedOfWeb& asked) {
    ScriptedReply reply = ScriptedWeb::Bytes(asked, files_["model.safetensors"]);
    reply.cut_after = std::min<int64_t>(std::ssize(reply.body), 30'000);
    sent += reply.cut_after;
    return std::optional(reply);
  };
  ASSERT_TRUE(Fetch().ok());
  // A connection that is closed may lose what was still under way.
  EXPECT_EQ(sent, std::ssize(files_["model.safetensors"]));
}

TEST_F(HubFetchTest, WrongBytesAreFetchedOnceMoreAndThenRefused) {
  int wrong = 1;
  on_cdn_ = [&](const AskedOfWeb& asked) {
    ScriptedReply reply = ScriptedWeb::Bytes(asked, files_["model.safetensors"]);
    if (wrong-- > 0) reply.body[0] ^= 1;
    return std::optional(reply);
  };
  const Result<HubSnapshot> snapshot = Fetch();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  EXPECT_EQ(*ReadFile(snapshot->path + "/model.safetensors"), files_["model.safetensors"]);
  fs::remove_all(folder_);
  wrong = 1000;
  const Status status = Fetch().status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
  EXPECT_FALSE(
      FileExists(folder_ + "/models--org--name/snapshots/" + kCommit + "/model.safetensors"));
  EXPECT_FALSE(FileExists(folder_ + "/models--org--name/refs/main"));
}

TEST_F(HubFetchTest, ASignedAddressThatHasRunOutIsAskedForAnew) {
  connections_ = 1;
  int num_asked = 0;
  on_cdn_ = [&](const AskedOfWeb&) -> std::optional<ScriptedReply> {
    // The first part comes by the hub's redirect, the second one by the address that was kept.
    if (++num_asked == 2) return ScriptedReply{.status = 403};
    return std::nullopt;
  };
  const Result<HubSnapshot> snapshot = Fetch();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  EXPECT_EQ(num_asked, 3);
  int num_resolved = 0;
  for (const AskedOfWeb& asked : hub_.asked()) {
    if (asked.target.ends_with("/model.safetensors")) ++num_resolved;
  }
  EXPECT_EQ(num_resolved, 2);
}

TEST_F(HubFetchTest, AServerThatWentIsAskedForAnew) {
  connections_ = 1;
  std::string gone;  // the server that the first redirect led to
  const auto redirect = [&](const AskedOfWeb& asked) -> std::optional<ScriptedReply> {
    if (!asked.target.ends_with("/model.safetensors")) return std::nullopt;
    const std::string place = std::exchange(gone, "/gone") == "" ? "/first/" : "/second/";
    return ScriptedReply{.status = 302, .headers = {{"Location", cdn_.Url(place)}}};
  };
  on_hub_ = redirect;
  int num_first = 0;
  on_cdn_ = [&](const AskedOfWeb& asked) {
    ScriptedReply reply = ScriptedWeb::Bytes(asked, files_["model.safetensors"]);
    if (asked.target == "/first/" && ++num_first > 1) reply.cut_after = 0;
    return std::optional(reply);
  };
  const Result<HubSnapshot> snapshot = Fetch();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  EXPECT_EQ(num_first, 2);
}

TEST_F(HubFetchTest, WhatIsLargerThanItMayBeIsNotBegun) {
  files_ = {{"adapter_config.json", "{}"}, {"adapter_model.safetensors", std::string(200, 'w')}};
  DownloadOptions options{.bytes_max = 201};
  const auto fetch = [&] {
    return FetchFromHub(settings_, *ParseHubName("org/name"), HubKind::kAdapter, options);
  };
  EXPECT_EQ(fetch().status().code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(cdn_.asked().empty());
  EXPECT_FALSE(FileExists(folder_));
  options.bytes_max = 202;
  EXPECT_TRUE(fetch().ok());
}

TEST_F(HubFetchTest, RevisionsWithSlashesAreOnesOfTheHubAndOfTheCache) {
  on_hub_ = [&](const AskedOfWeb& asked) -> std::optional<ScriptedReply> {
    if (asked.target != "/api/models/org/name/revision/refs%2Fpr%2F7") return std::nullopt;
    return ScriptedReply{.body = R"({"sha":")" + kCommit + "\"}"};
  };
  const Result<HubSnapshot> snapshot = Fetch(HubKind::kModel, "org/name@refs/pr/7");
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  EXPECT_EQ(*ReadFile(folder_ + "/models--org--name/refs/refs/pr/7"), kCommit);
  settings_.is_offline = true;
  EXPECT_EQ(Fetch(HubKind::kModel, "org/name@refs/pr/7")->path, snapshot->path);
  EXPECT_FALSE(Fetch(HubKind::kModel, "org/name@refs/pr/8").ok());
}

TEST_F(HubFetchTest, TellsWhyARepositoryIsNotServed) {
  files_.erase("model.safetensors");
  files_["pytorch_model.bin"] = "pickle";
  EXPECT_THAT(Fetch().status().message(), HasSubstr("pickles (.bin) are not read"));
  EXPECT_THAT(Fetch(HubKind::kAdapter).status().message(), HasSubstr(kIsBaseModel));
  files_["x.gguf"] = "gguf";
  EXPECT_THAT(Fetch().status().message(), HasSubstr("GGUF"));
  files_["adapter_config.json"] = "{}";
  EXPECT_THAT(Fetch().status().message(), HasSubstr("it is an adapter"));
  EXPECT_THAT(Fetch(HubKind::kAdapter).status().message(),
              HasSubstr("no adapter_model.safetensors; pickles (.bin) are not fetched"));
  files_["adapter_model.safetensors"] = "weights";
  EXPECT_EQ(Fetch(HubKind::kAdapter)->kind, HubKind::kAdapter);
}

TEST_F(HubFetchTest, ShardsAreThoseOfTheIndexAndLieBesideIt) {
  files_.erase("model.safetensors");
  files_["model-00001-of-00002.safetensors"] = std::string(200, 'a');
  files_["model-00002-of-00002.safetensors"] = std::string(200, 'b');
  files_["consolidated.safetensors"] = std::string(200, 'c');
  const auto index = [&](const std::string& second) {
    files_["model.safetensors.index.json"] =
        Json{{"weight_map", {{"a", "model-00001-of-00002.safetensors"}, {"b", second}}}}.dump();
  };
  index("model-00002-of-00002.safetensors");
  const Result<HubSnapshot> snapshot = Fetch();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  EXPECT_TRUE(FileExists(snapshot->path + "/model-00002-of-00002.safetensors"));
  EXPECT_FALSE(FileExists(snapshot->path + "/consolidated.safetensors"));
  for (const char* const bad : {"../../../../etc/passwd", "/etc/passwd", "missing.safetensors",
                                "sub/x.safetensors", "model.bin"}) {
    index(bad);
    EXPECT_EQ(Fetch().status().code(), StatusCode::kDataLoss) << bad;
  }
}

TEST_F(HubFetchTest, PathsThatLeadOutAreRefused) {
  for (const char* const bad : {"../config.json", "/etc/passwd", "a//b", "a/./b", "a\\b", "a\nb"}) {
    files_[bad] = "x";
    const Status status = Fetch().status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << bad;
    EXPECT_THAT(status.message(), HasSubstr("lists a file that cannot be"));
    files_.erase(bad);
  }
  for (const char* const bad : {"org", "org/name/x", "../name", "org/..", "org/na--me", "/org/name",
                                "org/name@", "org/name@../x", "org/name@a b", "o@/name"}) {
    EXPECT_FALSE(ParseHubName(bad).ok()) << bad;
  }
  EXPECT_EQ(ParseHubName("org/name@refs/pr/7")->revision, "refs/pr/7");
  EXPECT_EQ(HubRepoFolder("org/name"), "models--org--name");
}

TEST_F(HubFetchTest, ErrorsSayWhatToDoAndTellNoToken) {
  settings_.token = Secret(kToken);
  const auto fail = [&](int status, const std::string& code) {
    on_hub_ = [=](const AskedOfWeb&) {
      return std::optional(ScriptedReply{
          .status = status,
          .headers = {{"X-Error-Code", code},
                      {"X-Error-Message", std::string("you sent Bearer ") + kToken}}});
    };
    const Status failed = Fetch().status();
    EXPECT_THAT(failed.message(), Not(HasSubstr(kToken)));
    return failed;
  };
  EXPECT_THAT(fail(403, "GatedRepo").message(), HasSubstr("given out on request: ask at"));
  EXPECT_EQ(fail(401, "RepoNotFound").code(), StatusCode::kNotFound);
  EXPECT_THAT(fail(404, "RevisionNotFound").message(), HasSubstr("no such revision"));
  EXPECT_EQ(fail(503, "").code(), StatusCode::kUnavailable);
  settings_.token = {};
  EXPECT_THAT(fail(401, "RepoNotFound").message(), HasSubstr("set HF_TOKEN"));
}

TEST_F(HubFetchTest, AGatedRepositoryTellsItsCommitAndKeepsItsFiles) {
  settings_.token = Secret(kToken);
  files_["large.safetensors"] = std::string(200, 'l');
  bool is_open = false;
  on_hub_ = [&](const AskedOfWeb& asked) -> std::optional<ScriptedReply> {
    if (is_open || !asked.target.starts_with("/org/name/resolve/")) return std::nullopt;
    return ScriptedReply{.status = 403, .headers = {{"X-Error-Code", "GatedRepo"}}};
  };
  HubClient client(settings_, {.reachable = ReachableAddresses::Beside("127.0.0.1")});
  EXPECT_EQ(*client.CommitOf("org/name", "main"), kCommit);
  EXPECT_EQ(client.CheckAccess("org/name", kCommit, "config.json").code(),
            StatusCode::kPermissionDenied);
  EXPECT_THAT(Fetch().status().message(), HasSubstr("given out on request: ask at"));
  is_open = true;
  for (const char* const path : {"config.json", "large.safetensors"}) {
    EXPECT_TRUE(client.CheckAccess("org/name", kCommit, path).ok()) << path;
  }
}

TEST_F(HubFetchTest, FilesThatGoWhileTheyAreFetchedAreTriedAgain) {
  ASSERT_TRUE(Fetch().ok());
  const std::string repo = folder_ + "/models--org--name";
  const std::string config = repo + "/blobs/" + GitSha1("{}");
  fs::remove(repo + "/snapshots/" + kCommit + "/model.safetensors");
  fs::remove(repo + "/blobs/" + Sha256Of(files_["model.safetensors"]));
  on_cdn_ = [&](const AskedOfWeb&) {
    fs::remove(config);
    return std::optional<ScriptedReply>();
  };
  const Status status = Fetch(HubKind::kModel, "org/name@" + kCommit).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("config.json was removed"));
  EXPECT_TRUE(Fetch().ok());
}

TEST_F(HubFetchTest, AHubThatIsAwayLeavesWhatTheCacheHas) {
  ASSERT_TRUE(Fetch().ok());
  on_hub_ = [](const AskedOfWeb&) { return std::optional(ScriptedReply{.status = 503}); };
  const Result<HubSnapshot> snapshot = Fetch();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  EXPECT_EQ(snapshot->commit, kCommit);
  EXPECT_EQ(Fetch(HubKind::kModel, "org/other").status().code(), StatusCode::kUnavailable);
}

// A container may have a cache that was filled when its image was made.
TEST_F(HubFetchTest, ACacheThatCannotBeWrittenServesWhatItHas) {
  const HubSnapshot first = *Fetch();
  const std::string repo = folder_ + "/models--org--name";
  for (const char* const name : {"/refs", "/.no_exist"}) {
    fs::remove_all(repo + name);
    std::ofstream(repo + name) << "no folder";
  }
  const Result<HubSnapshot> again = Fetch();
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->path, first.path);
  fs::remove(first.path + "/model.safetensors");
  EXPECT_FALSE(Fetch().ok());
}

TEST_F(HubFetchTest, ARevisionThatMovesKeepsTheOldOne) {
  ASSERT_TRUE(Fetch().ok());
  const std::string other(40, 'b');
  on_hub_ = [&](const AskedOfWeb& asked) -> std::optional<ScriptedReply> {
    if (asked.target == "/api/models/org/name/revision/main") {
      return ScriptedReply{.body = R"({"sha":")" + other + "\"}"};
    }
    if (asked.target.starts_with("/api/models/org/name/tree/" + other)) {
      return ScriptedReply{.body = Tree()};
    }
    if (asked.target.starts_with("/org/name/resolve/" + other + "/config.json")) {
      return ScriptedWeb::Bytes(asked, files_["config.json"]);
    }
    return std::nullopt;
  };
  files_["config.json"] = "{\"new\": true}";
  const Result<HubSnapshot> snapshot = Fetch();
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  EXPECT_EQ(snapshot->commit, other);
  EXPECT_EQ(*ReadFile(folder_ + "/models--org--name/refs/main"), other);
  EXPECT_EQ(*ReadFile(folder_ + "/models--org--name/snapshots/" + kCommit + "/config.json"), "{}");
  // The weights are the same blob, which is not fetched again.
  EXPECT_EQ(snapshot->fetched_bytes, std::ssize(files_["config.json"]));
}

TEST_F(HubFetchTest, ASnapshotIsRemovedWithWhatIsItsAlone) {
  const HubSnapshot old = *Fetch();
  EXPECT_GT(FolderBytes(old.path), std::ssize(files_["model.safetensors"]));
  const std::string other(40, 'b');
  const std::string repo = folder_ + "/models--org--name";
  fs::create_directories(repo + "/snapshots/" + other);
  fs::copy_symlink(old.path + "/config.json", repo + "/snapshots/" + other + "/config.json");
  std::optional<FileLock> lock =
      *HubCache(folder_, "org/name").LockBlob(Sha256Of(files_["model.safetensors"]), nullptr);
  ASSERT_TRUE(RemoveHubSnapshot(old.path).ok());
  EXPECT_FALSE(FileExists(old.path));
  // It is being fetched for another snapshot.
  EXPECT_TRUE(FileExists(repo + "/blobs/" + Sha256Of(files_["model.safetensors"])));
  EXPECT_FALSE(FileExists(repo + "/refs/main"));
  fs::create_directories(old.path);
  lock.reset();
  ASSERT_TRUE(RemoveHubSnapshot(old.path).ok());
  EXPECT_FALSE(FileExists(repo + "/blobs/" + Sha256Of(files_["model.safetensors"])));
  EXPECT_EQ(*ReadFile(repo + "/snapshots/" + other + "/config.json"), "{}");
  EXPECT_FALSE(RemoveHubSnapshot(repo).ok());
  EXPECT_EQ(Fetch()->path, old.path);
}

TEST_F(HubFetchTest, ASnapshotThatIsWholeHasItsTree) {
  files_.erase("README.md");
  files_.erase("original/consolidated.00.pth");
  ASSERT_TRUE(Fetch().ok());
  const Json tree = *ParseJsonFile(folder_ + "/models--org--name/trees/" + kCommit + ".json");
  EXPECT_EQ(tree["format_version"], 1);
  EXPECT_EQ(tree["files"]["config.json"]["size"], 2);
  EXPECT_EQ(tree["files"]["model.safetensors"]["lfs_sha256"],
            Sha256Of(files_["model.safetensors"]));
}

// A process that was killed leaves what it had linked; a client that keeps listings links files one
// by one.
TEST_F(HubFetchTest, HalfASnapshotIsNotWholeOffline) {
  files_["chat_template.jinja"] = "{{ messages }}";
  on_hub_ = [&](const AskedOfWeb& asked) -> std::optional<ScriptedReply> {
    if (!asked.target.ends_with("/chat_template.jinja")) return std::nullopt;
    return ScriptedReply{.status = 404};
  };
  EXPECT_FALSE(Fetch().ok());
  const std::string snapshot = folder_ + "/models--org--name/snapshots/" + kCommit;
  EXPECT_FALSE(FileExists(snapshot + "/config.json"));
  settings_.is_offline = true;
  EXPECT_FALSE(Fetch(HubKind::kModel, "org/name@" + kCommit).ok());
  settings_.is_offline = false;
  on_hub_ = nullptr;
  files_.erase("README.md");
  files_.erase("original/consolidated.00.pth");
  ASSERT_TRUE(Fetch().ok());
  ASSERT_TRUE(FileExists(folder_ + "/models--org--name/trees/" + kCommit + ".json"));
  settings_.is_offline = true;
  EXPECT_TRUE(Fetch().ok());
  fs::remove(snapshot + "/chat_template.jinja");
  EXPECT_THAT(Fetch().status().message(), HasSubstr("has no chat_template.jinja"));
}

TEST_F(HubFetchTest, ManyShardsTakeFewDescriptors) {
  files_.erase("model.safetensors");
  Json map = Json::object();
  for (int i = 0; i < 300; ++i) {
    const std::string shard = "model-" + std::to_string(i) + ".safetensors";
    files_[shard] = std::string(150, 's') + shard;
    map["tensor" + std::to_string(i)] = shard;
  }
  files_["model.safetensors.index.json"] = Json{{"weight_map", map}}.dump();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto num_open = std::distance(fs::directory_iterator("/proc/self/fd"), {});
  const rlimit few = {static_cast<rlim_t>(num_open) + 250, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const Result<HubSnapshot> snapshot = Fetch();
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status().ToString();
  for (const auto& [path, bytes] : files_) {
    if (!path.ends_with(".safetensors")) continue;
    EXPECT_EQ(*ReadFile(snapshot->path + "/" + path), bytes);
  }
}

// Machines that share a folder may not see each other's locks.
TEST_F(HubFetchTest, AnotherMachinesUnfinishedFileIsNotTouchedForADay) {
  ASSERT_TRUE(Fetch().ok());
  const HubCache cache(folder_, "org/name");
  const std::string own = cache.UnfinishedPath("etag");
  EXPECT_EQ(own, cache.UnfinishedPath("etag"));
  EXPECT_NE(own, cache.UnfinishedPath("etag", /*own=*/true));
  EXPECT_THAT(own, HasSubstr("." + LockScope() + ".incomplete"));
  const std::string other = cache.BlobPath("etag") + ".00000000.incomplete";
  for (const std::string& path : {own, other}) {
    std::ofstream(path) << "x";
    std::ofstream(path + ".parts") << "1 1 0\n";
  }
  ASSERT_TRUE(cache.Prepare().ok());
  EXPECT_TRUE(FileExists(other));
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(30);
  for (const std::string& path : {own, other}) {
    fs::last_write_time(path, old);
    fs::last_write_time(path + ".parts", old);
  }
  ASSERT_TRUE(cache.Prepare().ok());
  EXPECT_TRUE(FileExists(own));
  EXPECT_FALSE(FileExists(other) || FileExists(other + ".parts"));
}

TEST_F(HubFetchTest, TheNextPageIsFoundAmongOtherLinks) {
  on_hub_ = [&](const AskedOfWeb& asked) -> std::optional<ScriptedReply> {
    if (asked.target.find("/tree/") == std::string::npos) return std::nullopt;
    if (asked.target.find("cursor=2") != std::string::npos) return ScriptedReply{.body = Tree()};
    return ScriptedReply{
        .headers = {{"Link", "<" + hub_.Url(asked.target) + ">; rel=\"first\", <" +
                                 hub_.Url(asked.target + "&cursor=2") + ">; rel=\"next\""}},
        .body = "[]"};
  };
  EXPECT_TRUE(Fetch().ok());
}

TEST_F(HubFetchTest, WhatIsNoListingIsTold) {
  for (const std::string& body :
       {std::string("<html>"), std::string(1000, '['), std::string("{}")}) {
    on_hub_ = [=](const AskedOfWeb& asked) -> std::optional<ScriptedReply> {
      if (asked.target.find("/tree/") == std::string::npos) return std::nullopt;
      return ScriptedReply{.body = body};
    };
    const Status status = Fetch().status();
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_THAT(status.message(), HasSubstr("is no list of files"));
  }
}

TEST_F(HubFetchTest, AListingThatRepeatsTheTokenIsToldWithoutIt) {
  settings_.token = Secret(kToken);
  files_[std::string("../") + kToken] = "x";
  EXPECT_THAT(Fetch().status().message(), Not(HasSubstr(kToken)));
}

TEST_F(HubFetchTest, AListingThatGoesOnElsewhereIsNotFollowed) {
  settings_.token = Secret(kToken);
  on_hub_ = [&](const AskedOfWeb& asked) -> std::optional<ScriptedReply> {
    if (asked.target.find("/tree/") == std::string::npos) return std::nullopt;
    return ScriptedReply{.headers = {{"Link", "<" + cdn_.Url("/x") + ">; rel=\"next\""}},
                         .body = "[]"};
  };
  EXPECT_EQ(Fetch().status().code(), StatusCode::kPermissionDenied);
  EXPECT_TRUE(cdn_.asked().empty());
}

TEST(HubSettingsTest, ReadsWhatTheClientReads) {
  std::map<std::string, std::string> variables = {{"HOME", "/nowhere/home"}};
  const ReadVariable read = [&](const char* name) -> std::optional<std::string> {
    const auto it = variables.find(name);
    if (it == variables.end() || it->second.empty()) return std::nullopt;
    return it->second;
  };
  HubSettings settings = *HubSettings::FromEnvironment(read);
  EXPECT_EQ(settings.endpoint.Text(), "https://huggingface.co");
  EXPECT_EQ(settings.cache, "/nowhere/home/.cache/huggingface/hub");
  EXPECT_TRUE(settings.token.empty());
  EXPECT_FALSE(settings.is_offline);
  const std::string folder = ::testing::TempDir() + "hub_settings";
  fs::create_directories(folder);
  std::ofstream(folder + "/token") << kToken << "\n";
  variables["HF_HOME"] = folder;
  variables["HF_ENDPOINT"] = "http://mirror:8080/hub/";
  variables["HF_HUB_OFFLINE"] = "1";
  settings = *HubSettings::FromEnvironment(read);
  EXPECT_EQ(settings.endpoint.Text(), "http://mirror:8080/hub");
  EXPECT_EQ(settings.cache, folder + "/hub");
  EXPECT_EQ(settings.token.Reveal(), kToken);
  EXPECT_TRUE(settings.is_offline);
  variables["HF_HUB_CACHE"] = "~/models";
  variables["HF_TOKEN"] = "hf_other";
  settings = *HubSettings::FromEnvironment(read);
  EXPECT_EQ(settings.cache, "/nowhere/home/models");
  EXPECT_EQ(settings.token.Reveal(), "hf_other");
  variables["HF_TOKEN"] = "two words";
  EXPECT_EQ(HubSettings::FromEnvironment(read).status().code(), StatusCode::kInvalidArgument);
  variables["HF_TOKEN"] = "hf_other";
  variables["HF_ENDPOINT"] = "hub";
  EXPECT_EQ(HubSettings::FromEnvironment(read).status().code(), StatusCode::kInvalidArgument);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace hub_fetch_test
}  // namespace graft
