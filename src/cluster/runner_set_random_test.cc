// A RunnerSet under random calls, with one thread and no network. Runners come up, leave, drain,
// refuse, evict and draw; they are listed, spare and gone; clients come and cancel. After each call
// every request is where it belongs, and each reader sees its tokens in order and one end. At the
// end no runner can use any adapter, and requests for one end within the wait for a runner.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "cluster/runner_set.h"

namespace graft {
namespace runner_set_random_test {
namespace {

constexpr size_t kNumAddresses = 6;
constexpr int kNumCalls = 2500;
constexpr int32_t kTokensMax = 4;
constexpr int64_t kRunnerWaitNs = 3'000'000'000;

// What has happened; each of it should.
struct Counts {
  int whole = 0;          // answers
  int refused = 0;        // requests
  int refused_drawn = 0;  // of these, after they had drawn elsewhere
  int moved = 0;          // after they had drawn
  int late = 0;           // of those that no runner could take
};

// A runner, as the test plays it.
struct Played {
  std::string address;
  bool is_up = false;
  std::map<uint64_t, Request> asked;  // with the tokens that it has drawn
  std::set<uint64_t> drawn_here;
  std::set<uint64_t> cancelled;
};

class PlayedLink : public RunnerLink {
 public:
  // `num_moved`: counts requests that come after they have drawn.
  PlayedLink(std::map<size_t, Played>& runners, size_t runner, const std::string& address,
             int& num_moved)
      : runners_(runners), runner_(runner), num_moved_(num_moved) {
    runners_[runner] = {.address = address};
  }
  ~PlayedLink() override { runners_.erase(runner_); }
  void Submit(const Request& request) override {
    ASSERT_TRUE(runners_[runner_].is_up) << "a runner that is down is asked";
    runners_[runner_].asked[request.id.number] = request;
    num_moved_ += request.output_tokens.empty() ? 0 : 1;
  }
  void Cancel(uint64_t number) override { runners_[runner_].cancelled.insert(number); }
  void Tick(int64_t, bool) override {}

 private:
  std::map<size_t, Played>& runners_;
  const size_t runner_;
  int& num_moved_;
};

struct Reader {
  std::shared_ptr<TokenStream> stream = std::make_shared<TokenStream>();
  int32_t num_tokens = 0;
  bool has_adapter = false;
  bool is_cancelled = false;
  bool has_ended = false;
};

class RandomCalls {
 public:
  RandomCalls(PlacementKind kind, uint64_t seed, Counts& counts) : counts_(counts), random_(seed) {
    RunnerSetWorld world{.clock = &clock_, .frontend = 7, .has_ticker = false};
    world.start_link = [this](const RunnerLinkOptions& options, size_t runner,
                              RunnerListener& listener) -> Result<std::unique_ptr<RunnerLink>> {
      listener_ = &listener;
      return std::unique_ptr<RunnerLink>(
          std::make_unique<PlayedLink>(runners_, runner, options.address, counts_.moved));
    };
    RunnerSetOptions options;
    options.addresses_come_later = true;
    options.base.name = "base";
    options.placement.kind = kind;
    options.placement.seed = seed;
    options.consolidates = true;
    options.limits = {.context_tokens_max = 100, .vocab_size = 100, .requests_max = 12};
    options.runner_wait_ns = kRunnerWaitNs;
    set_ = RunnerSet::Start(options, world).value();
  }

  void Run() {
    for (int i = 0; i < kNumCalls; ++i) {
      CallAny();
      ReadAll();
      const Status status = set_->CheckIntegrity();
      ASSERT_TRUE(status.ok()) << status.ToString() << " after call " << i;
      if (testing::Test::HasFailure()) return;
    }
    RefuseAdapters();
    Finish();
  }

 private:
  size_t Below(size_t n) { return static_cast<size_t>(random_.Below(n)); }
  bool OneIn(size_t n) { return Below(n) == 0; }
  static std::string AddressOf(size_t i) { return "runner-" + std::to_string(i) + ":1"; }
  // All but one in so many.
  std::vector<std::string> MostAddresses(size_t one_in) {
    std::vector<std::string> addresses;
    for (size_t i = 0; i < kNumAddresses; ++i) {
      if (!OneIn(one_in)) addresses.push_back(AddressOf(i));
    }
    return addresses;
  }
  std::vector<ListedAdapter> SomeAdapters(bool all = false) {
    std::vector<ListedAdapter> listed;
    for (const char* const hash : {"aa", "bb"}) {
      if (all || !OneIn(3)) listed.push_back({.info = {.name = hash, .hash = hash}});
    }
    return listed;
  }

  void CallAny() {
    clock_.AdvanceNs(static_cast<int64_t>(Below(20'000'000)));
    switch (Below(16)) {
      case 0:
      case 1:
      case 2:
        return Submit();
      case 3:
        return CancelAny();
      case 4:
        if (OneIn(4)) set_->SetRunners(MostAddresses(5));
        return;
      case 5:
        if (OneIn(4)) set_->SetSpare(OneIn(2) ? std::vector<std::string>() : MostAddresses(3));
        return;
      case 6:
        if (OneIn(4)) SetRegistry(OneIn(2));
        return;
      case 7:
      case 8:
        return set_->Tick();
      default:
        break;
    }
    if (runners_.empty()) return;
    const auto runner = std::next(runners_.begin(), static_cast<int64_t>(Below(runners_.size())));
    if (!runner->second.is_up) return Up(runner->first);
    Speak(runner->first);
  }

  void SetRegistry(bool has_adapter) {
    RegistryFacts registry{.tenant_weights = {{"heavy", 3.0f}}};
    if (has_adapter) registry.adapters["aa"] = {.path = "/aa", .name = "aa"};
    set_->SetRegistry(std::move(registry));
  }

  void Submit() {
    auto reader = std::make_unique<Reader>();
    Request request;
    request.id = ++last_id_;
    request.tenant = OneIn(4) ? "heavy" : OneIn(2) ? "a" : "b";
    request.prompt_tokens = {1, 2, 3};
    request.sampling.tokens_max = kTokensMax;
    if (!OneIn(3)) request.UseAdapter(OneIn(2) ? "aa" : "bb");
    const uint64_t id = last_id_;
    reader->has_adapter = !request.adapters.empty();
    if (!set_->Submit(std::move(request), reader->stream).ok()) return;
    readers_[id] = std::move(reader);
  }

  void CancelAny() {
    if (readers_.empty() || !OneIn(3)) return;
    const auto one = std::next(readers_.begin(), static_cast<int64_t>(Below(readers_.size())));
    one->second->is_cancelled = true;
    set_->Cancel(one->first);
  }

  void Up(size_t runner, bool with_all = false) {
    Played& played = runners_[runner];
    played.asked.clear();
    played.cancelled.clear();
    played.is_up = true;
    const Status up =
        listener_->OnUp(runner, {.protocol = kProtocolVersion - (OneIn(4) ? 1u : 0u),
                                 .base = {.name = "base"},
                                 .arithmetic_id = played.address < AddressOf(3) ? "cpu" : "gpu",
                                 .page_tokens = 4,
                                 .batch_max = 4,
                                 .num_pages = 20,
                                 .adapters = SomeAdapters(with_all)});
    EXPECT_TRUE(up.ok()) << up.ToString();
  }

  void Speak(size_t runner) {
    Played& played = runners_[runner];
    switch (Below(12)) {
      case 0:
        if (!OneIn(4)) return;
        played.is_up = false;
        return listener_->OnDown(runner, UnavailableError("it is gone"));
      case 1:
        if (OneIn(8)) Up(runner);  // it was never said to be down
        return;
      case 2:
        return listener_->OnState(
            runner, {.requests_running = std::ssize(played.asked), .pages_free = 16}, OneIn(20));
      case 3:
        if (OneIn(4)) listener_->OnAdapters(runner, SomeAdapters());
        return;
      default:
        break;
    }
    if (played.asked.empty()) return;
    const auto one =
        std::next(played.asked.begin(), static_cast<int64_t>(Below(played.asked.size())));
    switch (Below(8)) {
      case 0:
        return listener_->OnStep(runner, {one->first});
      case 1:
        return listener_->OnEvicted(runner, one->first);
      case 2:
      case 3:
        return Refuse(runner, one->first,
                      OneIn(2)   ? ResourceExhaustedError("full")
                      : OneIn(2) ? NotFoundError("no such content")
                                 : DataLossError("a broken folder"));
      default:
        Draw(runner, one->first);
    }
  }

  // What has drawn there is not refused any more.
  void Refuse(size_t runner, uint64_t number, const Status& why) {
    Played& played = runners_[runner];
    if (played.drawn_here.contains(number)) return;
    ++counts_.refused;
    counts_.refused_drawn += played.asked[number].output_tokens.empty() ? 0 : 1;
    played.asked.erase(number);
    Tell(runner, number, {.finish_reason = FinishReason::kError, .status = why});
  }

  // A token is its place in the answer.
  void Draw(size_t runner, uint64_t number) {
    Played& played = runners_[runner];
    Request& request = played.asked[number];
    if (played.cancelled.erase(number) > 0) {
      played.asked.erase(number);
      return Tell(runner, number, {.finish_reason = FinishReason::kCancelled});
    }
    const auto place = static_cast<int32_t>(request.output_tokens.size());
    request.output_tokens.push_back(place);
    played.drawn_here.insert(number);
    const bool is_last = place + 1 == kTokensMax;
    if (is_last) played.asked.erase(number);
    Tell(runner, number,
         {.token = place, .finish_reason = is_last ? FinishReason::kLength : FinishReason::kNone});
  }

  void Tell(size_t runner, uint64_t number, TokenEvent event) {
    std::vector<TokenEvent> events;
    events.push_back(std::move(event));
    listener_->OnEvents(runner, number, std::move(events));
  }

  void ReadAll() {
    for (auto& [id, reader] : readers_) {
      while (const std::optional<TokenEvent> event = reader->stream->TryPop()) {
        EXPECT_FALSE(reader->has_ended) << "request " << id << " has ended, and has an event";
        if (event->token >= 0) {
          EXPECT_EQ(event->token, reader->num_tokens++) << "request " << id;
        }
        if (event->finish_reason == FinishReason::kNone) continue;
        reader->has_ended = true;
        if (event->finish_reason == FinishReason::kCancelled) {
          EXPECT_TRUE(reader->is_cancelled);
        }
        counts_.late += event->status.code() == StatusCode::kUnavailable ? 1 : 0;
        if (event->finish_reason != FinishReason::kLength) continue;
        EXPECT_EQ(reader->num_tokens, kTokensMax);
        ++counts_.whole;
      }
    }
    std::erase_if(readers_, [](const auto& one) { return one.second->has_ended; });
  }

  std::vector<std::pair<size_t, uint64_t>> AllAsked() const {
    std::vector<std::pair<size_t, uint64_t>> asked;
    for (const auto& [runner, played] : runners_) {
      for (const auto& [number, request] : played.asked) asked.emplace_back(runner, number);
    }
    return asked;
  }

  // All runners list all adapters, and can use none. They refuse a request one after the other, a
  // tick each, before it waits and after it has waited. Meanwhile some seem to have no room: a
  // request that has drawn nothing and stands in line for it waits for a runner from then on.
  void RefuseAdapters() {
    constexpr int kTicksOfWait = kRunnerWaitNs / RunnerSet::kTickNs;
    constexpr int kTicksAround = 20;
    for (const auto& [runner, played] : std::map<size_t, Played>(runners_)) {
      Up(runner, /*with_all=*/true);
    }
    constexpr int kTicks = kTicksAround + kTicksOfWait + kTicksAround + kTicksOfWait;
    for (int tick = 0; tick < kTicks; ++tick) {
      const bool all_tell = tick < kTicksAround || tick >= kTicksAround + kTicksOfWait;
      for (const auto& [runner, played] : runners_) {
        if (!all_tell && !OneIn(4)) continue;
        const int64_t num_asked = std::ssize(played.asked);
        listener_->OnState(runner, {.requests_running = num_asked, .pages_free = 16}, false);
      }
      clock_.AdvanceNs(RunnerSet::kTickNs);
      set_->Tick();
      for (const auto& [runner, number] : AllAsked()) {
        if (runners_[runner].asked[number].adapters.empty()) {
          Draw(runner, number);
        } else {
          Refuse(runner, number, NotFoundError("no such content"));
        }
      }
      ReadAll();
    }
    for (const auto& [id, reader] : readers_) {
      EXPECT_FALSE(reader->has_adapter) << "request " << id << " is later than its wait";
    }
  }

  // All runners are there, and whatever is in flight ends.
  void Finish() {
    for (int round = 0; round < 400 && !readers_.empty(); ++round) {
      set_->SetSpare({});
      set_->SetRunners(MostAddresses(1'000'000'000));
      clock_.AdvanceNs(RunnerSet::kTickNs);
      set_->Tick();
      for (const auto& [runner, number] : AllAsked()) Draw(runner, number);
      for (const auto& [runner, played] : std::map<size_t, Played>(runners_)) {
        if (round % 100 == 0) Up(runner, /*with_all=*/true);
      }
      ReadAll();
      const Status status = set_->CheckIntegrity();
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    EXPECT_TRUE(readers_.empty()) << readers_.size() << " requests do not end";
    EXPECT_EQ(set_->num_waiting(), 0);
  }

  Counts& counts_;
  ManualClock clock_;
  Random random_;
  std::map<size_t, Played> runners_;  // by the number of their links
  RunnerListener* listener_ = nullptr;
  std::unique_ptr<RunnerSet> set_;
  std::map<uint64_t, std::unique_ptr<Reader>> readers_;
  uint64_t last_id_ = 0;
};

class RunnerSetRandomTest : public testing::TestWithParam<PlacementKind> {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(InitLog("off").ok()); }
  static void TearDownTestSuite() { ASSERT_TRUE(InitLog("info").ok()); }
};

TEST_P(RunnerSetRandomTest, EachRequestIsWhereItBelongs) {
  Counts counts;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomCalls(GetParam(), seed, counts).Run();
    if (HasFailure()) return;
  }
  EXPECT_GT(counts.whole, 30);
  EXPECT_GT(counts.refused, 40);
  EXPECT_GT(counts.refused_drawn, 5);
  EXPECT_GT(counts.moved, 20);
  EXPECT_GT(counts.late, 0);
}

INSTANTIATE_TEST_SUITE_P(Placements, RunnerSetRandomTest,
                         testing::Values(PlacementKind::kMostIdle, PlacementKind::kPunica,
                                         PlacementKind::kRandom, PlacementKind::kRendezvous,
                                         PlacementKind::kAuto));

}  // namespace
}  // namespace runner_set_random_test
}  // namespace graft
