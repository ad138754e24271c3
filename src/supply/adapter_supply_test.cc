#include "supply/adapter_supply.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <mutex>
#include <set>
#include <thread>

#include "base/name_pattern.h"
#include "request/fake_catalog.h"
#include "sources/hub_files.h"
#include "supply/local_sources.h"

namespace graft {
namespace {

using ::testing::HasSubstr;

// Moves when told to; read by the supply's threads.
class SteppedClock : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_; }
  void AdvanceNs(int64_t ns) { now_ns_ += ns; }

 private:
  std::atomic<int64_t> now_ns_{1};
};

// A hub with the repositories that the test sets, and locks of its own.
class ScriptedRoute : public SupplyRoute {
 public:
  Result<std::string> RevisionOf(const std::string& rest, const SupplyRights& rights,
                                 const std::atomic<bool>& /*is_cancelled*/) override {
    std::unique_lock lock(mutex_);
    ++num_looked;
    opened_.wait(lock, [&] { return !is_shut; });
    if (is_away) return UnavailableError("away");
    const Secret* const token = rights.token;
    const bool is_private = rest.starts_with("private/");
    if (is_private && (token == nullptr || !token->Reveal().starts_with("good"))) {
      return NotFoundError("planted words of the hub");
    }
    if (!revisions.contains(rest)) return NotFoundError("planted words of the hub");
    return revisions[rest];
  }
  Result<SourceFolder> Fetch(const std::string& rest, const std::string& revision,
                             const SupplyRights& rights,
                             const std::atomic<bool>& /*is_cancelled*/) override {
    std::unique_lock lock(mutex_);
    ++num_fetched;
    const Secret* const token = rights.token;
    opened_.wait(lock, [&] { return !is_fetch_shut; });
    if (!fetch_failure.ok()) return fetch_failure;
    if (token != nullptr && refused_tokens.contains(token->Reveal())) {
      return PermissionDeniedError("planted words of the hub");
    }
    if (!folder.empty() || rest == "org/large") {
      return SourceFolder{.path = folder.empty() ? "broken" : folder,
                          .revision = revision,
                          .fetched_bytes = fetched_bytes};
    }
    // A branch and its commit have one folder.
    return SourceFolder{.path = "good/" + rest.substr(0, rest.find('@')),
                        .revision = revision,
                        .bytes = folder_bytes,
                        .fetched_bytes = num_fetched == 1 ? 1 : fetched_bytes};
  }
  bool IsName(const std::string& rest) const override { return rest.find("..") == rest.npos; }
  std::string root() const override { return root_folder; }
  bool IsThere(const std::string& folder) const override {
    std::lock_guard lock(mutex_);
    return !lost.contains(folder);
  }
  Status Remove(const std::string& folder) override {
    std::unique_lock lock(mutex_);
    removed.push_back(folder);
    opened_.notify_all();
    opened_.wait(lock, [&] { return !is_remove_shut; });
    return OkStatus();
  }
  void WaitForRemovals(size_t count) {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return removed.size() >= count; });
  }

  void Shut(bool shut) {
    std::lock_guard lock(mutex_);
    is_shut = shut;
    opened_.notify_all();
  }
  void ShutFetch(bool shut) {
    std::lock_guard lock(mutex_);
    is_fetch_shut = shut;
    opened_.notify_all();
  }
  void SetAway(bool away) {
    std::lock_guard lock(mutex_);
    is_away = away;
  }
  int looked() {
    std::lock_guard lock(mutex_);
    return num_looked;
  }
  int fetched() {
    std::lock_guard lock(mutex_);
    return num_fetched;
  }

  mutable std::mutex mutex_;
  std::condition_variable opened_;
  std::map<std::string, std::string> revisions = {
      {"org/one", "r1"}, {"private/two", "r1"}, {"org/large", "r1"}};
  bool is_shut = false;
  bool is_away = false;
  bool is_fetch_shut = false;
  bool is_remove_shut = false;
  std::set<std::string> lost;  // folders that another program has emptied
  Status fetch_failure;
  std::string folder;  // that Fetch gives; "": one of its own for each
  std::set<std::string> refused_tokens;
  int64_t folder_bytes = 600;
  int64_t fetched_bytes = 1;  // of all but the first
  int num_looked = 0;
  int num_fetched = 0;
  std::vector<std::string> removed;
  std::string root_folder = "/fetched";
};

class AdapterSupplyTest : public ::testing::Test {
 protected:
  void Start(SupplyOptions options = {}) {
    options.sources = {{.name = "hub"}};
    options.allow = {"hub/org/*", "hub/private/*"};
    auto route = std::make_unique<ScriptedRoute>();
    route_ = route.get();
    std::vector<std::unique_ptr<SupplyRoute>> routes;
    routes.push_back(std::move(route));
    supply_ =
        std::make_unique<AdapterSupply>(std::move(options), std::move(routes), catalog_, clock_);
  }
  std::future<Status> Begin(const std::string& name, const std::string& tenant = "a") {
    auto promise = std::make_shared<std::promise<Status>>();
    std::future<Status> future = promise->get_future();
    supply_->Want(name, tenant, [promise](const Status& status) { promise->set_value(status); });
    return future;
  }
  Status Want(const std::string& name, const std::string& tenant = "a") {
    return Begin(name, tenant).get();
  }

  bool Permits(const std::string& name, const std::string& tenant) {
    const Result<AdapterInfo> listed = catalog_.Find(name);
    return listed.ok() && supply_->Permits(*listed, tenant);
  }
  Result<BroughtAdapter> Bring(const std::string& name) {
    auto promise = std::make_shared<std::promise<Result<BroughtAdapter>>>();
    auto future = promise->get_future();
    supply_->Bring(
        name, [promise](const Result<BroughtAdapter>& brought) { promise->set_value(brought); });
    return future.get();
  }

  FakeCatalog catalog_;
  SteppedClock clock_;
  ScriptedRoute* route_ = nullptr;
  std::unique_ptr<AdapterSupply> supply_;
};

TEST_F(AdapterSupplyTest, NamesOutsideThePatternsAskNobody) {
  Start();
  for (const char* const name : {"hub/other/one", "org/one", "one", "hub", "hub/org/../one",
                                 "elsewhere/org/one", "http://hub/org/one", "hub/org/o ne"}) {
    EXPECT_FALSE(supply_->MayHave(name)) << name;
    EXPECT_EQ(Want(name).code(), StatusCode::kNotFound) << name;
  }
  EXPECT_TRUE(supply_->MayHave("hub/org/one"));
  EXPECT_EQ(route_->looked(), 0);
}

TEST_F(AdapterSupplyTest, ManyThatAskCostOneFetch) {
  Start();
  route_->Shut(true);
  std::vector<std::future<Status>> waiting;
  for (int i = 0; i < 50; ++i) waiting.push_back(Begin("hub/org/one", i % 2 == 0 ? "a" : "b"));
  route_->Shut(false);
  for (std::future<Status>& one : waiting) EXPECT_TRUE(one.get().ok());
  EXPECT_EQ(route_->num_fetched, 1);
  EXPECT_EQ(route_->num_looked, 2);  // once a tenant
  EXPECT_EQ(catalog_.Find("hub/org/one")->revision, "r1");
}

TEST_F(AdapterSupplyTest, WhatIsNotThereIsRememberedForAWhileAndByTenant) {
  Start();
  const Status status = Want("hub/org/none");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "there is no adapter 'hub/org/none'");
  EXPECT_EQ(Want("hub/org/none").code(), StatusCode::kNotFound);
  EXPECT_EQ(route_->looked(), 1);
  EXPECT_EQ(Want("hub/org/none", "b").code(), StatusCode::kNotFound);
  EXPECT_EQ(route_->looked(), 2);
  clock_.AdvanceNs(SupplyOptions().unknown_ns);
  route_->revisions["org/none"] = "r1";
  EXPECT_TRUE(Want("hub/org/none").ok());
}

TEST_F(AdapterSupplyTest, TheOldestOfTooManyUnknownNamesIsForgotten) {
  Start();
  const auto name = [](size_t i) { return "hub/org/none" + std::to_string(i); };
  for (size_t i = 0; i <= AdapterSupply::kUnknownMax; ++i) (void)Want(name(i));
  const int looked = route_->looked();
  EXPECT_EQ(looked, AdapterSupply::kUnknownMax + 1);
  EXPECT_EQ(Want(name(1)).code(), StatusCode::kNotFound);
  EXPECT_EQ(Want(name(AdapterSupply::kUnknownMax)).code(), StatusCode::kNotFound);
  EXPECT_EQ(route_->looked(), looked);
  EXPECT_EQ(Want(name(0)).code(), StatusCode::kNotFound);
  EXPECT_EQ(route_->looked(), looked + 1);
}

TEST_F(AdapterSupplyTest, UnfitAdaptersAreTheClientsErrorAndFetchedOnce) {
  Start();
  for (int i = 0; i < 3; ++i) {
    const Status status = Want("hub/org/large");
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("adapter_config.json: []"));
  }
  EXPECT_EQ(route_->num_fetched, 1);
  route_->revisions["org/large"] = "r2";
  EXPECT_EQ(Want("hub/org/large").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(route_->num_fetched, 2);
  route_->folder = "misshapen";
  EXPECT_EQ(Want("hub/org/one").message(), "'hub/org/one' cannot be served: tensor a is too short");
}

TEST_F(AdapterSupplyTest, AFetchThatFailsIsNotTheAdaptersFault) {
  Start();
  for (const StatusCode code :
       {StatusCode::kFailedPrecondition, StatusCode::kDataLoss, StatusCode::kAborted,
        StatusCode::kInvalidArgument, StatusCode::kResourceExhausted}) {
    route_->fetch_failure = Status(code, "planted words of the hub");
    const Status status = Want("hub/org/one");
    EXPECT_EQ(status.code(), StatusCode::kUnavailable);
    EXPECT_THAT(status.message(), ::testing::Not(HasSubstr("planted")));
  }
  route_->fetch_failure = {};
  EXPECT_TRUE(Want("hub/org/one").ok());
}

TEST_F(AdapterSupplyTest, FilesThatWentAndAFullListAreNotRemembered) {
  Start();
  for (const char* const folder : {"gone", "full"}) {
    route_->folder = folder;
    EXPECT_EQ(Want("hub/org/one").code(), StatusCode::kUnavailable) << folder;
  }
  route_->folder.clear();
  EXPECT_TRUE(Want("hub/org/one").ok());
}

TEST_F(AdapterSupplyTest, AUseFillsNoQueueBeyondItsBound) {
  Start();
  EXPECT_TRUE(Want("hub/org/one").ok());
  clock_.AdvanceNs(SupplyOptions().refresh_ns);
  route_->Shut(true);
  std::vector<std::future<Status>> waiting;
  const auto begin = [&](size_t count) {
    for (size_t i = 0; i < count; ++i) {
      waiting.push_back(Begin("hub/org/x" + std::to_string(waiting.size())));
    }
  };
  begin(AdapterSupply::kThreads - 1);  // one thread is left for others
  while (route_->looked() < AdapterSupply::kThreads) std::this_thread::yield();
  begin(AdapterSupply::kWaitingMax);
  supply_->Used("hub/org/one", "a");
  std::future<Status> refused = Begin("hub/org/one");
  EXPECT_EQ(refused.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  route_->Shut(false);
  EXPECT_EQ(refused.get().code(), StatusCode::kResourceExhausted);
  for (std::future<Status>& one : waiting) EXPECT_EQ(one.get().code(), StatusCode::kNotFound);
}

TEST_F(AdapterSupplyTest, WhatIsNoAdapterIsFetchedOnce) {
  Start();
  route_->fetch_failure = UnimplementedError("planted words of the hub");
  for (int i = 0; i < 2; ++i) {
    const Status status = Want("hub/org/one");
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("its source has no adapter there"));
    EXPECT_THAT(status.message(), ::testing::Not(HasSubstr("planted")));
  }
  EXPECT_EQ(route_->num_fetched, 1);
  route_->fetch_failure = UnimplementedError(std::string("'planted': ") + kIsBaseModel);
  EXPECT_EQ(Want("hub/org/large").message(),
            "'hub/org/large' cannot be served: it is a base model, not an adapter");
}

TEST_F(AdapterSupplyTest, AFetchThatIsRefusedIsOneTenantsAlone) {
  SupplyOptions options;
  options.has_tenant_tokens = true;
  options.tenant_tokens["a"] = Secret("good of a");
  options.tenant_tokens["b"] = Secret("good of b");
  Start(std::move(options));
  route_->refused_tokens = {"good of a"};
  route_->ShutFetch(true);
  std::future<Status> first = Begin("hub/private/two", "a");
  while (route_->fetched() == 0) std::this_thread::yield();
  std::future<Status> second = Begin("hub/private/two", "b");  // waits for the first one's fetch
  while (route_->looked() < 2) std::this_thread::yield();
  route_->ShutFetch(false);
  EXPECT_EQ(first.get().message(), "there is no adapter 'hub/private/two'");
  EXPECT_TRUE(second.get().ok());
  EXPECT_TRUE(Permits("hub/private/two", "b"));
  EXPECT_FALSE(Permits("hub/private/two", "a"));
}

TEST_F(AdapterSupplyTest, WhatTheCatalogAloneListsNeedsATokenToo) {
  SupplyOptions options;
  options.has_tenant_tokens = true;
  Start(std::move(options));
  ASSERT_TRUE(catalog_.Load({.name = "hub/private/two", .path = "good/x"}).ok());
  EXPECT_FALSE(Permits("hub/private/two", "a"));
  Start();
  EXPECT_TRUE(Permits("hub/private/two", "a"));
}

TEST(HubRouteTest, OfflineNoTokenIsAccepted) {
  HubSettings settings;
  settings.cache = ::testing::TempDir() + "supply_offline";
  settings.is_offline = true;
  const std::string commit(40, 'a');
  const std::string folder = settings.cache + "/models--org--one/snapshots/" + commit;
  std::filesystem::create_directories(folder);
  for (const char* const name : {"adapter_config.json", "adapter_model.safetensors"}) {
    std::ofstream(folder + "/" + name) << "x";
  }
  const auto route = MakeHubRoute(settings);
  const std::atomic<bool> is_cancelled{false};
  const Secret token("good");
  EXPECT_EQ(*route->RevisionOf("org/one@" + commit, {}, is_cancelled), commit);
  EXPECT_EQ(route->RevisionOf("org/one@" + commit, {.token = &token}, is_cancelled).status().code(),
            StatusCode::kPermissionDenied);
  std::filesystem::remove_all(settings.cache);
}

TEST_F(AdapterSupplyTest, ATenantHasWhatItsOwnTokenIsGiven) {
  SupplyOptions options;
  options.has_tenant_tokens = true;
  options.tenant_tokens["a"] = Secret("good");
  options.tenant_tokens["b"] = Secret("bad");
  Start(std::move(options));
  EXPECT_TRUE(Want("hub/private/two", "a").ok());
  EXPECT_TRUE(Permits("hub/private/two", "a"));
  for (const char* const other : {"b", "c"}) {
    EXPECT_FALSE(Permits("hub/private/two", other));
    const Status status = Want("hub/private/two", other);
    EXPECT_EQ(status.message(), "there is no adapter 'hub/private/two'");
    EXPECT_FALSE(Permits("hub/private/two", other));
  }
  EXPECT_EQ(route_->num_fetched, 1);
  // A right is asked for again; one that was taken away ends.
  clock_.AdvanceNs(SupplyOptions().refresh_ns);
  EXPECT_FALSE(Permits("hub/private/two", "a"));
  EXPECT_TRUE(Want("hub/private/two", "a").ok());
  EXPECT_TRUE(Permits("hub/private/two", "a"));
  route_->revisions.erase("private/two");
  EXPECT_EQ(Want("hub/private/two", "a").code(), StatusCode::kNotFound);
  EXPECT_FALSE(Permits("hub/private/two", "a"));
}

TEST_F(AdapterSupplyTest, ANewerRevisionIsFoundBesideTheServing) {
  Start();
  EXPECT_TRUE(Want("hub/org/one").ok());
  route_->revisions["org/one"] = "r2";
  supply_->Used("hub/org/one", "a");
  EXPECT_EQ(route_->looked(), 1);
  clock_.AdvanceNs(SupplyOptions().refresh_ns);
  EXPECT_TRUE(Permits("hub/org/one", "a"));  // and a listing asks no source
  EXPECT_EQ(route_->looked(), 1);
  supply_->Used("hub/org/one", "a");
  EXPECT_TRUE(Want("hub/org/one").ok());  // joins what the use has begun, or comes after it
  EXPECT_EQ(catalog_.Find("hub/org/one")->revision, "r2");
}

TEST_F(AdapterSupplyTest, ASourceThatIsAwayIsNoAnswer) {
  Start();
  route_->is_away = true;
  EXPECT_EQ(Want("hub/org/one").code(), StatusCode::kUnavailable);
  route_->is_away = false;
  EXPECT_TRUE(Want("hub/org/one").ok());
}

TEST_F(AdapterSupplyTest, ATenantThatAsksForManyLeavesOthersTheirTurn) {
  Start();
  route_->Shut(true);
  std::vector<std::future<Status>> waiting;
  int num_refused = 0;
  for (size_t i = 0; i < 3 * AdapterSupply::kWaitingMax; ++i) {
    std::future<Status> one = Begin("hub/org/x" + std::to_string(i));
    if (one.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
      EXPECT_EQ(one.get().code(), StatusCode::kResourceExhausted);
      ++num_refused;
    } else {
      waiting.push_back(std::move(one));
    }
  }
  EXPECT_GE(num_refused, static_cast<int>(AdapterSupply::kWaitingMax));
  std::future<Status> other = Begin("hub/org/one", "b");
  route_->Shut(false);
  EXPECT_TRUE(other.get().ok());
  for (std::future<Status>& one : waiting) EXPECT_EQ(one.get().code(), StatusCode::kNotFound);
}

TEST_F(AdapterSupplyTest, WhatWasUsedLeastLatelyGoesFirstAndLater) {
  SupplyOptions options;
  options.bytes_max = 1300;
  Start(std::move(options));
  route_->revisions["org/two"] = "r1";
  const int64_t kept_ns = SupplyOptions().kept_ns;
  // Each look-up ends with a look at the bound.
  const auto wait_for = [&](const std::function<bool()>& is_so) {
    for (int i = 0; i < 2000 && !is_so(); ++i) {
      (void)Want("hub/org/none" + std::to_string(i));
    }
    return is_so();
  };
  EXPECT_TRUE(Want("hub/org/one").ok());
  // Found on the disk: the folder is this server's by its other name.
  route_->revisions["org/one@r1"] = "r1";
  route_->fetched_bytes = 0;
  EXPECT_TRUE(Want("hub/org/one@r1").ok());
  EXPECT_TRUE(Want("hub/org/two").ok());
  EXPECT_TRUE(catalog_.Find("hub/org/one").ok());
  EXPECT_TRUE(Permits("hub/org/one", "a"));  // a look at it is no use
  // One of the folder's two names stays, and the folder with it.
  clock_.AdvanceNs(kept_ns);
  EXPECT_TRUE(wait_for([&] { return !catalog_.Find("hub/org/one").ok(); }));
  EXPECT_TRUE(catalog_.Find("hub/org/one@r1").ok());
  clock_.AdvanceNs(kept_ns);
  route_->revisions["org/three"] = "r1";
  EXPECT_TRUE(Want("hub/org/three").ok());
  EXPECT_TRUE(wait_for([&] { return !catalog_.Find("hub/org/one@r1").ok(); }));
  EXPECT_TRUE(catalog_.Find("hub/org/two").ok());
  EXPECT_TRUE(route_->removed.empty());
  clock_.AdvanceNs(kept_ns);
  supply_->Used("hub/org/two", "a");
  EXPECT_TRUE(wait_for([&] {
    std::lock_guard lock(route_->mutex_);
    return !route_->removed.empty();
  }));
  EXPECT_THAT(route_->removed, ::testing::ElementsAre("good/org/one"));
}

TEST_F(AdapterSupplyTest, WhatIsNotFitToBeServedLeavesTheDiskAtOnce) {
  SupplyOptions options;
  options.bytes_max = 1;
  Start(std::move(options));
  EXPECT_EQ(Want("hub/org/large").code(), StatusCode::kInvalidArgument);
  route_->WaitForRemovals(1);
  // The list of adapters is full: it may be asked for again, and stays for a while.
  route_->folder = "full";
  EXPECT_EQ(Want("hub/org/one").code(), StatusCode::kUnavailable);
  for (int i = 0; i < 20; ++i) (void)Want("hub/org/never" + std::to_string(i));
  {
    std::lock_guard lock(route_->mutex_);
    EXPECT_EQ(route_->removed.size(), 1U);
  }
  clock_.AdvanceNs(SupplyOptions().kept_ns);
  (void)Want("hub/org/none");
  route_->WaitForRemovals(2);
  std::lock_guard lock(route_->mutex_);
  EXPECT_THAT(route_->removed, ::testing::ElementsAre("broken", "full"));
}

TEST_F(AdapterSupplyTest, WhatIsLargerThanAllMayBeIsFetchedNever) {
  Start();
  route_->fetch_failure = Status(StatusCode::kOutOfRange, "planted words of the hub");
  for (int i = 0; i < 2; ++i) {
    const Status status = Want("hub/org/one");
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("larger than all adapters of sources"));
  }
  EXPECT_EQ(route_->fetched(), 1);
}

// A name is asked for again while its folder is being removed.
TEST_F(AdapterSupplyTest, AFolderThatIsBeingRemovedIsFetchedAnew) {
  SupplyOptions options;
  options.bytes_max = 700;
  Start(std::move(options));
  route_->revisions["org/two"] = "r1";
  EXPECT_TRUE(Want("hub/org/one").ok());
  clock_.AdvanceNs(SupplyOptions().kept_ns);
  EXPECT_TRUE(Want("hub/org/two").ok());
  for (int i = 0; catalog_.Find("hub/org/one").ok(); ++i) {
    (void)Want("hub/org/none" + std::to_string(i));
  }
  {
    std::lock_guard lock(route_->mutex_);
    route_->is_remove_shut = true;
  }
  clock_.AdvanceNs(SupplyOptions().kept_ns);
  supply_->Used("hub/org/two", "a");
  (void)Want("hub/org/later");
  route_->WaitForRemovals(1);
  const int fetched = route_->fetched();
  std::future<Status> again = Begin("hub/org/one", "b");
  while (route_->fetched() == fetched) std::this_thread::yield();
  // What it found is on its way out, so it waits.
  EXPECT_EQ(again.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  EXPECT_FALSE(catalog_.Find("hub/org/one").ok());
  {
    std::lock_guard lock(route_->mutex_);
    route_->is_remove_shut = false;
    route_->opened_.notify_all();
  }
  EXPECT_TRUE(again.get().ok());
  EXPECT_EQ(route_->fetched(), fetched + 2);
  EXPECT_TRUE(catalog_.Find("hub/org/one").ok());
}

TEST_F(AdapterSupplyTest, WhatLostItsFilesIsFetchedAnew) {
  Start();
  EXPECT_TRUE(Want("hub/org/one").ok());
  EXPECT_TRUE(Want("hub/org/one").ok());
  EXPECT_EQ(route_->fetched(), 1);
  {
    std::lock_guard lock(route_->mutex_);
    route_->lost.insert("good/org/one");
  }
  EXPECT_TRUE(Want("hub/org/one").ok());
  EXPECT_EQ(route_->fetched(), 2);
}

TEST_F(AdapterSupplyTest, AFolderThatAnotherNameUsesIsNotRemoved) {
  SupplyOptions options;
  options.bytes_max = 700;
  Start(std::move(options));
  route_->revisions["org/two"] = "r1";
  EXPECT_TRUE(Want("hub/org/one").ok());
  ASSERT_TRUE(catalog_.Load({.name = "an admin's", .path = "good/org/one"}).ok());
  clock_.AdvanceNs(SupplyOptions().kept_ns);
  EXPECT_TRUE(Want("hub/org/two").ok());
  for (int i = 0; catalog_.Find("hub/org/one").ok(); ++i) {
    (void)Want("hub/org/none" + std::to_string(i));
  }
  clock_.AdvanceNs(SupplyOptions().kept_ns);
  supply_->Used("hub/org/two", "a");
  for (int i = 0; i < 20; ++i) (void)Want("hub/org/never" + std::to_string(i));
  supply_.reset();  // with its threads, and so after their looks at the bound
  EXPECT_TRUE(catalog_.Find("an admin's").ok());
}

TEST_F(AdapterSupplyTest, WhatAnotherFrontendHasListedIsNotFetchedAgain) {
  Start();
  const auto list = [&](const std::string& revision) {
    ASSERT_TRUE(catalog_
                    .Load({.name = "hub/org/one",
                           .path = "good/elsewhere",
                           .replace = true,
                           .fetched_revision = revision,
                           .is_looked_up = true})
                    .ok());
  };
  list("r1");
  EXPECT_TRUE(Permits("hub/org/one", "a"));
  // A source that is away is asked once in a while.
  route_->SetAway(true);
  for (int i = 0; i < 3; ++i) {
    supply_->Used("hub/org/one", "a");
    EXPECT_FALSE(Want("hub/org/none" + std::to_string(i)).ok());  // comes after it
  }
  EXPECT_LE(route_->looked(), 4);
  route_->SetAway(false);
  clock_.AdvanceNs(SupplyOptions().refresh_ns);
  supply_->Used("hub/org/one", "a");      // is looked up beside the serving
  EXPECT_TRUE(Want("hub/org/one").ok());  // joins that, or comes after it
  EXPECT_EQ(route_->fetched(), 0);
  route_->revisions["org/one"] = "r2";
  EXPECT_TRUE(Want("hub/org/one").ok());
  EXPECT_EQ(route_->fetched(), 1);
  EXPECT_EQ(catalog_.Find("hub/org/one")->revision, "r2");
}

TEST_F(AdapterSupplyTest, ARightIsForOneRevision) {
  SupplyOptions options;
  options.has_tenant_tokens = true;
  options.tenant_tokens["a"] = Secret("good of a");
  options.tenant_tokens["b"] = Secret("good of b");
  Start(std::move(options));
  EXPECT_TRUE(Want("hub/private/two", "a").ok());
  route_->revisions["private/two"] = "r2";
  EXPECT_TRUE(Want("hub/private/two", "b").ok());
  EXPECT_TRUE(Permits("hub/private/two", "b"));
  EXPECT_FALSE(Permits("hub/private/two", "a"));
  EXPECT_TRUE(Want("hub/private/two", "a").ok());
  EXPECT_TRUE(Permits("hub/private/two", "a"));
}

TEST_F(AdapterSupplyTest, ALoadBringsFilesAndListsNothing) {
  SupplyOptions options;
  options.has_tenant_tokens = true;  // which a load does not use
  Start(std::move(options));
  const Result<BroughtAdapter> brought = Bring("hub/org/one");
  ASSERT_TRUE(brought.ok());
  EXPECT_EQ(brought->path, "good/org/one");
  EXPECT_EQ(brought->revision, "r1");
  EXPECT_FALSE(catalog_.Find("hub/org/one").ok());
  for (const char* const name : {"hub/org/none", "hub/other/one", "elsewhere/x"}) {
    EXPECT_EQ(Bring(name).status().message(), std::string("there is no adapter '") + name + "'");
  }
  route_->fetch_failure = UnimplementedError("planted words of the hub");
  EXPECT_EQ(Bring("hub/org/one").status().code(), StatusCode::kInvalidArgument);
}

// What a runner's sources are asked for.
class LocalSourcesTest : public ::testing::Test {
 protected:
  LocalSources Make(bool has_tokens) {
    SupplyOptions options;
    options.sources = {{.name = "hub"}};
    options.allow = {"hub/org/*", "hub/private/*"};
    options.has_tenant_tokens = has_tokens;
    if (has_tokens) options.tenant_tokens["a"] = Secret("refused");
    auto route = std::make_unique<ScriptedRoute>();
    route_ = route.get();
    route_->refused_tokens = {"refused"};
    std::vector<std::unique_ptr<SupplyRoute>> routes;
    routes.push_back(std::move(route));
    return {std::move(options), std::move(routes)};
  }

  ScriptedRoute* route_ = nullptr;
  const std::atomic<bool> is_cancelled_{false};
};

TEST_F(LocalSourcesTest, FetchesByItsOwnPatternsAndTokens) {
  LocalSources sources = Make(/*has_tokens=*/true);
  EXPECT_THAT(sources.names(), ::testing::ElementsAre("hub"));
  SourceOrder order = {.source = "hub",
                       .rest = "org/one",
                       .revision = "r1",
                       .is_tenants = true,
                       .tenant = "b",
                       .has_tenant_tokens = true};
  EXPECT_EQ(sources.Fetch(order, is_cancelled_)->path, "good/org/one");
  order.tenant = "a";
  EXPECT_EQ(sources.Fetch(order, is_cancelled_).status().code(), StatusCode::kPermissionDenied);
  order.is_tenants = false;  // by the operator's
  EXPECT_TRUE(sources.Fetch(order, is_cancelled_).ok());
  const int fetched = route_->fetched();
  const auto refused = [&](SourceOrder bad) {
    return sources.Fetch(bad, is_cancelled_).status().code() == StatusCode::kFailedPrecondition;
  };
  SourceOrder bad = order;
  bad.source = "other";
  EXPECT_TRUE(refused(bad));
  bad = order;
  bad.rest = "other/one";
  EXPECT_TRUE(refused(bad));
  bad.rest = "org/../one";
  EXPECT_TRUE(refused(bad));
  bad = order;
  bad.has_tenant_tokens = false;
  EXPECT_TRUE(refused(bad));
  EXPECT_EQ(route_->fetched(), fetched);
}

TEST_F(LocalSourcesTest, RemovesNothingElsewhereAndNothingServed) {
  const std::string root = ::testing::TempDir() + "local_sources";
  std::filesystem::create_directories(root + "/in/served");
  LocalSources sources = Make(/*has_tokens=*/false);
  route_->root_folder = root + "/in";
  sources.SetIsServed([](const std::string& path) { return path.ends_with("/served"); });
  for (const char* const path : {"/in/served", "/in/../", "", "/in/none"}) {
    EXPECT_FALSE(sources.Drop("hub", root + path).ok()) << path;
  }
  EXPECT_TRUE(route_->removed.empty());
  std::filesystem::create_directories(root + "/in/idle");
  EXPECT_TRUE(sources.Drop("hub", root + "/in/idle").ok());
  EXPECT_EQ(route_->removed.size(), 1u);
  std::filesystem::remove_all(root);
}

// Another machine, which says what it was asked for.
class RecordingFetcher : public SourceFetcher {
 public:
  Result<SourceFolder> Fetch(const SourceOrder& order, const std::atomic<bool>&) override {
    orders.push_back(order);
    return SourceFolder{.path = "/there", .revision = order.revision};
  }
  Status Drop(const std::string& source, const std::string& path) override {
    dropped = source + " " + path;
    return OkStatus();
  }
  std::vector<std::string> names() const override { return {"hub"}; }

  std::vector<SourceOrder> orders;
  std::string dropped;
};

TEST(RemoteRouteTest, OrdersCarryNoTokens) {
  RecordingFetcher fetcher;
  const auto route = MakeRemoteRoute(std::make_unique<ScriptedRoute>(), "hub",
                                     /*has_tenant_tokens=*/true, fetcher);
  const std::atomic<bool> is_cancelled{false};
  const Secret token("good");
  const SupplyRights rights = {.token = &token, .tenant = "a"};
  EXPECT_EQ(*route->RevisionOf("private/two", rights, is_cancelled), "r1");
  EXPECT_EQ(route->Fetch("private/two", "r1", rights, is_cancelled)->path, "/there");
  EXPECT_TRUE(route->Fetch("org/one", "r1", {}, is_cancelled).ok());
  ASSERT_EQ(fetcher.orders.size(), 2u);
  EXPECT_TRUE(fetcher.orders[0].is_tenants && fetcher.orders[0].has_tenant_tokens);
  EXPECT_EQ(fetcher.orders[0].tenant, "a");
  EXPECT_FALSE(fetcher.orders[1].is_tenants);
  EXPECT_TRUE(route->Remove("/there").ok());
  EXPECT_EQ(fetcher.dropped, "hub /there");
}

TEST_F(AdapterSupplyTest, TheEndTellsAllThatWait) {
  Start();
  std::future<Status> first = Begin("hub/org/none");
  supply_.reset();
  EXPECT_FALSE(first.get().ok());
}

TEST(SupplyOptionsTest, ReadsSourcesAndTellsNoToken) {
  EXPECT_TRUE(ParseSupplySource("hub=hf:")->is_hub);
  EXPECT_EQ(ParseSupplySource("shelf=s3://bucket/a")->store.prefix, "a");
  for (const char* const bad :
       {"hf:", "=hf:", "hub=", "hub=http://x", "h/b=hf:", "hub=hf:x", "hub=s3://B/x"}) {
    EXPECT_FALSE(ParseSupplySource(bad).ok()) << bad;
  }
  EXPECT_THAT(SupplyOptionsOf({"hub=hf:"}, {}, "").status().message(), HasSubstr("needs --allow"));
  EXPECT_FALSE(SupplyOptionsOf({}, {"x"}, "").ok());
  EXPECT_FALSE(SupplyOptionsOf({"hub=hf:", "hub=hf:"}, {"x"}, "").ok());
  const std::string path = ::testing::TempDir() + "source_tokens.json";
  for (const char* const bad : {"hf_planted", "{\"a\": hf_planted}", "{\"a\": \"hf planted\"}",
                                "[\"hf_planted\"]", "{\"a\": 1}"}) {
    std::ofstream(path) << bad;
    const Status status = SupplyOptionsOf({"hub=hf:"}, {"*"}, path).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(status.message(), ::testing::Not(HasSubstr("planted"))) << bad;
  }
  std::ofstream(path) << R"({"a": "hf_planted"})";
  EXPECT_EQ(SupplyOptionsOf({"hub=hf:"}, {"*"}, path)->tenant_tokens.at("a").Reveal(),
            "hf_planted");
}

TEST(NamePatternTest, StarsStandForAnything) {
  EXPECT_TRUE(MatchesPattern("hub/acme/*", "hub/acme/x/y"));
  EXPECT_FALSE(MatchesPattern("hub/acme/*", "hub/acm/x"));
  EXPECT_TRUE(MatchesPattern("*x*", "axb"));
  EXPECT_FALSE(MatchesPattern("", "x"));
}

}  // namespace
}  // namespace graft
