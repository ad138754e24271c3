// A RunnerSet and what its links tell it, told by hand: one thread, no network.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cluster/runner_set.h"

namespace graft {
namespace runner_set_links_test {
namespace {

// What a runner was asked for.
struct Asked {
  std::vector<Request> submitted;
  std::vector<uint64_t> cancelled;
};

class RecordingLink : public RunnerLink {
 public:
  explicit RecordingLink(Asked& asked) : asked_(asked) {}
  void Submit(const Request& request) override { asked_.submitted.push_back(request); }
  void Cancel(uint64_t number) override { asked_.cancelled.push_back(number); }
  void Tick(int64_t, bool) override {}

 private:
  Asked& asked_;
};

class RunnerSetLinksTest : public testing::Test {
 protected:
  void SetUp() override { Start(/*requests_max=*/10); }
  void Start(int32_t requests_max) {
    set_.reset();  // the series of its runners have the names of the next one's
    asked_.clear();
    RunnerSetWorld world{.clock = &clock_, .frontend = 7, .has_ticker = false};
    world.start_link = [this](const RunnerLinkOptions&, size_t runner,
                              RunnerListener& listener) -> Result<std::unique_ptr<RunnerLink>> {
      listener_ = &listener;
      return std::unique_ptr<RunnerLink>(std::make_unique<RecordingLink>(asked_[runner]));
    };
    RunnerSetOptions options;
    options.addresses = {"zero:1", "one:1"};
    options.base.name = "base";
    options.placement.kind = PlacementKind::kMostIdle;
    options.limits = {.context_tokens_max = 100, .vocab_size = 100, .requests_max = requests_max};
    options.metrics = &metrics_;
    set_ = RunnerSet::Start(options, world).value();
  }
  static std::vector<ListedAdapter> Listed(const std::vector<std::string>& hashes) {
    std::vector<ListedAdapter> listed;
    for (const std::string& hash : hashes) {
      listed.push_back({.info = {.name = "adapter " + hash, .hash = hash}});
    }
    return listed;
  }
  void Up(size_t runner, const std::vector<std::string>& hashes = {}) {
    const Status up = listener_->OnUp(runner, {.protocol = kProtocolVersion,
                                               .base = {.name = "base"},
                                               .arithmetic_id = "cpu",
                                               .adapters = Listed(hashes)});
    ASSERT_TRUE(up.ok()) << up.ToString();
  }
  std::shared_ptr<TokenStream> Submit(const std::string& hash = "",
                                      const std::string& tenant = "") {
    auto stream = std::make_shared<TokenStream>();
    const Status taken = TrySubmit(hash, tenant, stream);
    EXPECT_TRUE(taken.ok()) << taken.ToString();
    return stream;
  }
  Status TrySubmit(const std::string& hash, const std::string& tenant,
                   std::shared_ptr<TokenStream> stream) {
    Request request;
    request.id = ++last_id_;
    request.tenant = tenant;
    request.prompt_tokens = {1};
    request.sampling.tokens_max = 5;
    request.UseAdapter(hash);
    return set_->Submit(std::move(request), std::move(stream));
  }
  // The runner says this of what it was asked for last.
  void Tell(size_t runner, TokenEvent event) {
    std::vector<TokenEvent> events;
    events.push_back(std::move(event));
    listener_->OnEvents(runner, asked_[runner].submitted.back().id.number, std::move(events));
  }
  void Refuse(size_t runner, Status status) {
    Tell(runner, {.finish_reason = FinishReason::kError, .status = std::move(status)});
  }
  size_t NumAsked(size_t runner) { return asked_[runner].submitted.size(); }
  void Register(const std::string& hash) {
    set_->SetRegistry({.adapters = {{hash, {.path = "/" + hash, .name = hash}}}});
  }
  void Tick() {
    clock_.AdvanceNs(RunnerSet::kTickNs);
    set_->Tick();
  }
  // All that the runner is asked for within so many ticks is refused. The reader's end, if it came.
  std::optional<TokenEvent> RefuseFor(int ticks, size_t runner, const Status& status,
                                      TokenStream& stream) {
    for (int i = 0; i < ticks; ++i) {
      const size_t before = NumAsked(runner);
      Tick();
      if (NumAsked(runner) > before) Refuse(runner, status);
      if (auto end = stream.TryPop(); end.has_value()) return end;
    }
    return std::nullopt;
  }

  static constexpr int kTicksOfWait = 30'000'000'000 / RunnerSet::kTickNs;
  static constexpr int kFlood = 70;  // more than a tick places

  ManualClock clock_;
  Metrics metrics_;
  std::map<size_t, Asked> asked_;
  RunnerListener* listener_ = nullptr;
  std::unique_ptr<RunnerSet> set_;
  uint64_t last_id_ = 0;
};

TEST_F(RunnerSetLinksTest, GoesToAnotherRunnerWhereItsOwnHasUnloadedTheAdapter) {
  Up(0, {"aa"});
  Up(1, {"aa"});
  const auto stream = Submit("aa");
  ASSERT_EQ(NumAsked(0), 1u);
  Refuse(0, NotFoundError("adapter content aa is unknown"));
  EXPECT_FALSE(stream->TryPop().has_value());
  ASSERT_EQ(NumAsked(1), 1u);
  // That one has no room just now, and the first one's list is still the old one.
  Refuse(1, ResourceExhaustedError("full"));
  set_->Tick();
  EXPECT_EQ(NumAsked(0), 1u);
  ASSERT_EQ(NumAsked(1), 2u);
  Refuse(1, NotFoundError("adapter content aa is unknown"));
  EXPECT_EQ(stream->Pop().status.code(), StatusCode::kNotFound) << "nobody has it";
}

TEST_F(RunnerSetLinksTest, IsAskedAgainOnceItListsTheAdapterAnew) {
  Up(0, {"aa"});
  set_->SetRegistry({.adapters = {{"aa", {.path = "/aa", .name = "aa"}}}});
  const auto stream = Submit("aa");
  Refuse(0, NotFoundError("adapter content aa is unknown"));
  set_->Tick();
  EXPECT_EQ(NumAsked(0), 1u) << "it lists the adapter, and has said that it is not there";
  EXPECT_FALSE(stream->TryPop().has_value()) << "it is registered";
  listener_->OnAdapters(0, Listed({"aa"}));
  EXPECT_EQ(NumAsked(0), 2u);
}

TEST_F(RunnerSetLinksTest, GoesToAnotherRunnerWhereItsOwnCannotReadTheAdapter) {
  for (const Status& why : {DataLossError("the adapter's file is truncated"),
                            PermissionDeniedError("cannot open the adapter's file")}) {
    Start(/*requests_max=*/10);
    Up(0, {"aa"});
    Up(1, {"aa"});
    const auto stream = Submit("aa");
    Refuse(0, why);
    ASSERT_EQ(NumAsked(1), 1u) << why.ToString();
    Refuse(1, why);
    EXPECT_EQ(stream->Pop().status.message(), why.message()) << "none can read it";
  }
}

TEST_F(RunnerSetLinksTest, AFloodThatNoRunnerCanTakeHoldsUpNoOther) {
  Start(/*requests_max=*/200);
  Up(0, {"bb"});
  Register("aa");
  std::vector<std::shared_ptr<TokenStream>> flood;
  for (int i = 0; i < kFlood; ++i) flood.push_back(Submit("aa", "flood"));
  const auto stream = Submit("", "other");
  Refuse(0, ResourceExhaustedError("full"));
  Tick();
  EXPECT_EQ(NumAsked(0), 2u) << "it is asked again";
  Refuse(0, ResourceExhaustedError("full"));
  listener_->OnAdapters(0, Listed({"bb", "cc"}));
  EXPECT_EQ(NumAsked(0), 3u);
  // They end all at once.
  clock_.AdvanceNs(kTicksOfWait * RunnerSet::kTickNs);
  set_->Tick();
  for (const auto& one : flood) {
    const auto end = one->TryPop();
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->status.code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(set_->num_waiting(), 0);
  EXPECT_EQ(set_->CheckIntegrity().ToString(), "OK");
}

// Runner 0 alone has the flood's adapter, and is full.
TEST_F(RunnerSetLinksTest, AFloodForAFullRunnerHoldsUpNoOther) {
  Start(/*requests_max=*/200);
  Up(0, {"aa"});
  Up(1, {"bb"});
  size_t num_refused = 0;
  const auto refuse_all = [&] {
    for (; num_refused < NumAsked(0); ++num_refused) {
      std::vector<TokenEvent> events(1);
      events[0].finish_reason = FinishReason::kError;
      events[0].status = ResourceExhaustedError("full");
      listener_->OnEvents(0, asked_[0].submitted[num_refused].id.number, std::move(events));
    }
  };
  for (int i = 0; i < kFlood; ++i) Submit("aa", "flood");
  const auto stream = Submit("bb", "other");
  Refuse(1, ResourceExhaustedError("full"));
  refuse_all();
  ASSERT_EQ(NumAsked(1), 1u);
  for (int i = 0; i < 2; ++i) {
    Tick();
    refuse_all();
  }
  EXPECT_EQ(NumAsked(1), 2u);
  EXPECT_EQ(NumAsked(0), size_t{2 * kFlood}) << "each once in that time";
  EXPECT_EQ(set_->CheckIntegrity().ToString(), "OK");
}

TEST_F(RunnerSetLinksTest, WhatHasDrawnAsksForItsAdapterEverMoreSeldomAndNotForEver) {
  Up(0, {"aa"});
  const auto stream = Submit("aa");
  Tell(0, {.token = 11});
  EXPECT_EQ(stream->Pop().token, 11);
  Up(0, {"aa"});  // it has lost its requests
  const Status gone = NotFoundError("adapter content aa is unknown");
  Refuse(0, gone);
  EXPECT_FALSE(RefuseFor(kTicksOfWait - 20, 0, gone, *stream).has_value());
  EXPECT_LT(NumAsked(0), 30u);
  EXPECT_GT(NumAsked(0), 15u);
  // What counts is the time since it drew.
  while (NumAsked(0) < 40) {
    const size_t before = NumAsked(0);
    listener_->OnAdapters(0, Listed({"aa"}));
    ASSERT_EQ(NumAsked(0), before + 1) << "at once where the list is another";
    Refuse(0, gone);
  }
  listener_->OnAdapters(0, Listed({"aa"}));
  Tell(0, {.token = 12});
  EXPECT_EQ(stream->Pop().token, 12);
  Up(0, {"aa"});
  Refuse(0, gone);
  EXPECT_FALSE(RefuseFor(kTicksOfWait - 20, 0, gone, *stream).has_value());
  const auto end = RefuseFor(20 + 1, 0, gone, *stream);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->status.code(), StatusCode::kUnavailable);
  EXPECT_NE(end->status.message().find(gone.message()), std::string::npos);
  EXPECT_EQ(set_->CheckIntegrity().ToString(), "OK");
}

TEST_F(RunnerSetLinksTest, WhatFailsAtItsRunnerEndsAndWhatWaitsForRoomWaits) {
  Up(0);
  auto stream = Submit();
  const Status full = ResourceExhaustedError("full");
  Refuse(0, full);
  EXPECT_FALSE(RefuseFor(2 * kTicksOfWait, 0, full, *stream).has_value());
  Tick();
  Tell(0, {.finish_reason = FinishReason::kStop});
  EXPECT_EQ(stream->Pop().finish_reason, FinishReason::kStop);
  stream = Submit();
  const Status hangs = UnavailableError("its storage does not answer");
  Refuse(0, hangs);
  const auto end = RefuseFor(kTicksOfWait + 1, 0, hangs, *stream);
  ASSERT_TRUE(end.has_value());
  EXPECT_NE(end->status.message().find(hangs.message()), std::string::npos);
}

TEST_F(RunnerSetLinksTest, AnIdThatIsInFlightIsRefused) {
  Up(0);
  const auto stream = Submit();
  --last_id_;
  EXPECT_EQ(TrySubmit("", "", std::make_shared<TokenStream>()).code(), StatusCode::kAlreadyExists);
  Tell(0, {.finish_reason = FinishReason::kStop});
  EXPECT_EQ(stream->Pop().finish_reason, FinishReason::kStop);
  --last_id_;
  Submit();
}

TEST_F(RunnerSetLinksTest, ARunnerThatComesUpAgainHasLostWhatItHad) {
  Up(0);
  const auto stream = Submit();
  ASSERT_EQ(NumAsked(0), 1u);
  Tell(0, {.token = 11});
  EXPECT_EQ(stream->Pop().token, 11);
  Up(0);
  ASSERT_EQ(NumAsked(0), 2u);
  EXPECT_EQ(asked_[0].submitted[1].output_tokens, std::vector<int32_t>{11});
  // What its former self still says is not heard.
  listener_->OnEvents(0, asked_[0].submitted[0].id.number, {{.token = 99}});
  Tell(0, {.token = 12});
  EXPECT_EQ(stream->Pop().token, 12);
}

// The figures that a view has before the runner's first word are not counted.
TEST_F(RunnerSetLinksTest, ARunnerThatWasSilentIsNotCountedTwice) {
  const std::string line = "graft_runner_output_tokens_total{runner=\"zero:1\"} ";
  for (int i = 0; i < 3; ++i) {
    Up(0);
    listener_->OnState(0, {.figures = {.output_tokens = 300 + i}}, /*draining=*/false);
    EXPECT_NE(metrics_.Render().find(line + std::to_string(300 + i) + "\n"), std::string::npos);
    listener_->OnDown(0, UnavailableError("it has been silent"));
  }
}

// It is told over the connection, so also with a fixed list of runners.
TEST_F(RunnerSetLinksTest, WhatARunnersDeviceHoldsItTellsItself) {
  Up(0, {"aa", "bb"});
  EXPECT_EQ(set_->NumHolders("aa"), 0);
  listener_->OnState(0, {.held = HeldAdapters{.resident = {"aa"}, .loading = {"bb"}}}, false);
  EXPECT_EQ(set_->NumHolders("aa"), 1);
  EXPECT_EQ(set_->NumHolders("bb"), 1);
  listener_->OnState(0, {}, false);
  EXPECT_EQ(set_->NumHolders("aa"), 1) << "as it said last";
  listener_->OnState(0, {.held = HeldAdapters{.resident = {"bb"}}}, false);
  EXPECT_EQ(set_->NumHolders("aa"), 0);
}

// The frontend has ten places.
TEST_F(RunnerSetLinksTest, NoTenantHasAllPlaces) {
  Up(0);
  std::vector<std::shared_ptr<TokenStream>> flood;
  for (int i = 0; i < 10; ++i) {
    flood.push_back(Submit("", "flood"));
    if (i < 8) Tell(0, {.token = 11});  // its answer has begun
  }
  const auto refused = [this](const std::string& tenant) {
    return TrySubmit("", tenant, std::make_shared<TokenStream>());
  };
  EXPECT_EQ(refused("flood").code(), StatusCode::kResourceExhausted);
  // The newest request without a token gives its place, and its runner hears of it.
  for (size_t displaced : {size_t{9}, size_t{8}}) {
    const size_t asked = NumAsked(0);
    const auto stream = Submit("", "other");
    EXPECT_EQ(NumAsked(0), asked + 1);
    const auto last = flood[displaced]->TryPop();
    ASSERT_TRUE(last.has_value());
    EXPECT_EQ(last->status.code(), StatusCode::kResourceExhausted);
    EXPECT_NE(last->status.message().find("try again later"), std::string::npos);
    EXPECT_EQ(asked_[0].cancelled.back(), asked_[0].submitted[displaced].id.number);
    EXPECT_FALSE(stream->TryPop().has_value());
    Tell(0, {.token = 12});
  }
  // All answers of the flood's have begun: there is one place more, not for the flood.
  EXPECT_EQ(refused("flood").code(), StatusCode::kResourceExhausted);
  Submit("", "other");
  Tell(0, {.token = 12});
  EXPECT_EQ(refused("other").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(refused("third").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(flood[0]->Pop().token, 11) << "and nobody's answer was cut";
  EXPECT_FALSE(flood[0]->TryPop().has_value());
  // Any tenant may take places that become free.
  for (size_t i = 0; i < 2; ++i) {
    std::vector<TokenEvent> events(1);
    events[0] = {.finish_reason = FinishReason::kStop};
    listener_->OnEvents(0, asked_[0].submitted[i].id.number, std::move(events));
  }
  Submit("", "flood");
}

TEST_F(RunnerSetLinksTest, WhoGetsNoPlaceHearsWhenToComeBack) {
  constexpr int64_t kSecond = 1'000'000'000;
  Up(0);
  std::shared_ptr<TokenStream> newest;
  for (int i = 0; i < 10; ++i) Submit("", "flood");
  // An answer ends every four seconds.
  for (int i = 0; i < 40; ++i) {
    clock_.AdvanceNs(4 * kSecond);
    Tell(0, {.finish_reason = FinishReason::kStop});
    newest = Submit("", "flood");
  }
  EXPECT_NEAR(set_->RetryAfterS("flood", 1.0), 4, 1);
  EXPECT_NEAR(set_->RetryAfterS("flood", 1.0), 8, 2) << "behind the first";
  // A place that another tenant takes has not become free.
  Submit("", "other");
  EXPECT_TRUE(newest->TryPop().has_value());
  EXPECT_NEAR(set_->RetryAfterS("flood", 1.0), 12, 3);
  clock_.AdvanceNs(60 * kSecond);
  EXPECT_GE(set_->RetryAfterS("flood", 1.0), 10) << "no answer has ended for a minute";
}

}  // namespace
}  // namespace runner_set_links_test
}  // namespace graft
