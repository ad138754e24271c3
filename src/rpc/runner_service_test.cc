// A service, and links to it over the loopback.
#include "rpc/runner_service.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "rpc/request_proto.h"
#include "rpc/runner.grpc.pb.h"
#include "rpc/runner_link.h"

namespace graft {
namespace {

constexpr std::chrono::seconds kPatience(60);  // only against hangs

// Records what it is asked for, and answers when it is told to.
class ScriptedGenerator : public Generator {
 public:
  Status Submit(Request request, std::shared_ptr<TokenStream> stream) override {
    std::lock_guard lock(mutex_);
    if (request.prompt_tokens.empty()) return InvalidArgumentError("the prompt holds no tokens");
    const RequestId id = request.id;
    streams_[id] = std::move(stream);
    requests_[id] = std::move(request);
    changed_.notify_all();
    return OkStatus();
  }
  void Cancel(RequestId id) override {
    std::lock_guard lock(mutex_);
    const auto it = streams_.find(id);
    if (it == streams_.end()) return;
    it->second->Push({.finish_reason = FinishReason::kCancelled});
    streams_.erase(it);
    changed_.notify_all();
  }
  GeneratorLimits limits() const override {
    return {.context_tokens_max = 100, .vocab_size = 50, .requests_max = 7};
  }

  bool WaitForStreams(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return streams_.size() == count; });
  }
  // Gives every request one token.
  void Step(int32_t token, size_t num_top = 0) {
    std::lock_guard lock(mutex_);
    for (auto& [id, stream] : streams_) {
      stream->Push({.token = token, .top_logprobs = std::vector<TokenLogprob>(num_top)});
    }
  }
  size_t num_streams() {
    std::lock_guard lock(mutex_);
    return streams_.size();
  }
  std::map<RequestId, Request> requests() {
    std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<RequestId, std::shared_ptr<TokenStream>> streams_;
  std::map<RequestId, Request> requests_;
};

class OneAdapter : public AdapterCatalog {
 public:
  std::vector<AdapterInfo> ListAfter(const std::string& name, size_t) const override {
    if (!name.empty()) return {};
    return {{.name = "austen", .hash = "aa", .rank_max = 8, .bytes = 100}};
  }
  Result<AdapterInfo> Find(const std::string&) const override { return NotFoundError("none"); }
  std::string NamesNear(const std::string&, const NameFilter&) const override { return ""; }
  AdapterState StateOf(const AdapterInfo&) const override { return state; }
  Result<AdapterInfo> Load(const AdapterLoad&) override { return NotFoundError("none"); }
  Status Unload(const std::string&, const std::string&) override { return NotFoundError("none"); }

  std::atomic<AdapterState> state{AdapterState::kHost};
};

// Records what it is told.
class Notes : public RunnerListener {
 public:
  Status OnUp(size_t, RunnerFacts facts) override {
    Change([&] {
      facts_ = std::move(facts);
      is_up_ = true;
    });
    return OkStatus();
  }
  void OnEvents(size_t, uint64_t number, std::vector<TokenEvent> events) override {
    Change([&] {
      calls_.push_back(number);
      for (TokenEvent& event : events) events_[number].push_back(std::move(event));
    });
  }
  void OnAdapters(size_t, std::vector<ListedAdapter> adapters) override {
    Change([&] { adapters_ = std::move(adapters); });
  }
  void OnState(size_t, const RunnerLoad& load, bool draining) override {
    Change([&] {
      load_ = load;
      if (load.held.has_value()) {
        held_ = load.held;
        ++num_held_;
      }
      draining_ = draining;
    });
  }
  void OnStep(size_t, std::vector<uint64_t> undrawn) override {
    Change([&] { steps_.push_back(std::move(undrawn)); });
  }
  void OnEvicted(size_t, uint64_t number) override {
    Change([&] { evicted_.push_back(number); });
  }
  void OnDown(size_t, const Status& why) override {
    Change([&] {
      is_up_ = false;
      why_ = why;
      ++num_downs_;
    });
  }

  template <typename Condition>
  bool WaitFor(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return condition(*this); });
  }
  bool WaitForUp() {
    return WaitFor([](const Notes& notes) { return notes.is_up_; });
  }
  bool WaitForFailure() {
    return WaitFor([](const Notes& notes) { return !notes.why_.ok(); });
  }

  RunnerFacts facts_;
  std::vector<uint64_t> calls_;
  std::map<uint64_t, std::vector<TokenEvent>> events_;
  std::vector<ListedAdapter> adapters_;  // sent after the welcome
  RunnerLoad load_;
  std::optional<HeldAdapters> held_;  // as it said last
  int32_t num_held_ = 0;
  std::vector<std::vector<uint64_t>> steps_;
  std::vector<uint64_t> evicted_;
  Status why_;
  int32_t num_downs_ = 0;
  bool is_up_ = false;
  bool draining_ = false;

 private:
  template <typename Action>
  void Change(Action action) {
    std::lock_guard lock(mutex_);
    action();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
};

class RunnerServiceTest : public testing::Test {
 protected:
  void Serve(RunnerServiceOptions options = {}) {
    options.base = {.name = "base", .text_hash = "t", .weights_hash = "w"};
    options.arithmetic_id = "cpu";
    options.num_pages = 11;
    options.startup_ms = 1300;
    service_ = RunnerService::Start(options, generator_, catalog_, [this] {
                 return RunnerLoad{.requests_waiting = 1,
                                   .requests_running = 2,
                                   .pages_free = 3,
                                   .prefixes = {uint64_t{1} << 63, num_prefixes_}};
               }).value();
  }
  RunnerLinkOptions LinkOptions() {
    return {.address = "127.0.0.1:" + std::to_string(service_->port()),
            .base = {.name = "base", .text_hash = "t", .weights_hash = ""},
            .frontend = 11};
  }
  static Request MakeRequest(uint64_t number) {
    Request request;
    request.id = {11, number};
    request.prompt_tokens = {1, 2, 3};
    return request;
  }

  ScriptedGenerator generator_;
  OneAdapter catalog_;
  Notes notes_;
  std::atomic<uint64_t> num_prefixes_{1};
  std::unique_ptr<RunnerService> service_;
  std::unique_ptr<RunnerLink> link_;
};

TEST_F(RunnerServiceTest, WelcomesAndTellsHowItIs) {
  Serve();
  link_ = StartGrpcLink(LinkOptions(), 0, notes_).value();
  ASSERT_TRUE(notes_.WaitForUp());
  EXPECT_EQ(notes_.facts_.arithmetic_id, "cpu");
  EXPECT_EQ(notes_.facts_.base.weights_hash, "w");
  EXPECT_EQ(notes_.facts_.limits.context_tokens_max, 100);
  EXPECT_EQ(notes_.facts_.limits.requests_max, 7);
  EXPECT_EQ(notes_.facts_.num_pages, 11);
  EXPECT_EQ(notes_.facts_.startup_ms, 1300);
  ASSERT_EQ(notes_.facts_.adapters.size(), 1u);
  EXPECT_EQ(notes_.facts_.adapters[0].info.name, "austen");
  EXPECT_EQ(notes_.facts_.adapters[0].state, AdapterState::kHost);
  EXPECT_TRUE(notes_.WaitFor([](const Notes& notes) { return notes.load_.pages_free == 3; }));
  service_->BeginDrain();
  EXPECT_TRUE(notes_.WaitFor([](const Notes& notes) { return notes.draining_; }));
  EXPECT_TRUE(notes_.WaitFor([](const Notes& notes) { return notes.adapters_.empty(); }));
  service_->OnAdaptersChanged();
  EXPECT_TRUE(notes_.WaitFor([](const Notes& notes) { return notes.adapters_.size() == 1; }));
}

TEST_F(RunnerServiceTest, SaysThatItDrainsBeforeItEnds) {
  for (int i = 0; i < 20; ++i) {
    Serve();
    Notes notes;
    const auto link = StartGrpcLink(LinkOptions(), 0, notes).value();
    ASSERT_TRUE(notes.WaitForUp());
    service_->BeginDrain();
    service_.reset();
    ASSERT_TRUE(notes.WaitForFailure());
    EXPECT_TRUE(notes.draining_) << i;
  }
}

TEST_F(RunnerServiceTest, TellsPrefixesWhereTheyHaveChanged) {
  Serve();
  link_ = StartGrpcLink(LinkOptions(), 0, notes_).value();
  ASSERT_TRUE(notes_.WaitFor([](const Notes& notes) { return !notes.load_.prefixes.empty(); }));
  EXPECT_TRUE(notes_.facts_.has_prefix_cache);
  EXPECT_TRUE(notes_.WaitFor([](const Notes& notes) { return notes.load_.prefixes.empty(); }))
      << "it says them once";
  // And now and then anyway: what the frontend has sent meanwhile it thinks is cached until then.
  EXPECT_TRUE(notes_.WaitFor([](const Notes& notes) { return !notes.load_.prefixes.empty(); }));
  num_prefixes_ = 7;
  EXPECT_TRUE(notes_.WaitFor([](const Notes& notes) {
    return notes.load_.prefixes == std::vector<uint64_t>{uint64_t{1} << 63, 7};
  }));
}

TEST_F(RunnerServiceTest, ARunnerWithoutACacheSaysSo) {
  Serve({.prefix_cache = false});
  link_ = StartGrpcLink(LinkOptions(), 0, notes_).value();
  ASSERT_TRUE(notes_.WaitFor([](const Notes& notes) { return notes.load_.pages_free == 3; }));
  EXPECT_FALSE(notes_.facts_.has_prefix_cache);
  EXPECT_TRUE(notes_.load_.prefixes.empty());
}

// Frontends tell a runner that comes back by it from another one at its address.
TEST_F(RunnerServiceTest, EachStartIsAnotherInstance) {
  Serve();
  link_ = StartGrpcLink(LinkOptions(), 0, notes_).value();
  ASSERT_TRUE(notes_.WaitForUp());
  const uint64_t first = notes_.facts_.instance;
  EXPECT_NE(first, 0u);
  link_.reset();
  service_.reset();
  Serve();
  Notes notes;
  link_ = StartGrpcLink(LinkOptions(), 0, notes).value();
  ASSERT_TRUE(notes.WaitForUp());
  EXPECT_NE(notes.facts_.instance, first);
  link_.reset();
}

TEST_F(RunnerServiceTest, TellsWhatItsDeviceHoldsWhereThatHasChanged) {
  Serve();
  link_ = StartGrpcLink(LinkOptions(), 0, notes_).value();
  const auto holds = [](std::vector<std::string> resident, std::vector<std::string> loading) {
    return [=](const Notes& notes) {
      return notes.held_ == HeldAdapters{resident, loading, /*is_whole=*/true};
    };
  };
  EXPECT_TRUE(notes_.WaitFor(holds({}, {})));
  catalog_.state = AdapterState::kLoading;
  EXPECT_TRUE(notes_.WaitFor(holds({}, {"aa"})));
  catalog_.state = AdapterState::kResident;
  EXPECT_TRUE(notes_.WaitFor(holds({"aa"}, {})));
  EXPECT_EQ(notes_.num_held_, 3) << "it says so once each";
}

// The answer of gRPC's own health check (grpc.health.v1) for a service: the number of its
// ServingStatus, or minus the code of the failure.
int AskHealth(int port, const std::string& service) {
  const auto channel =
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  // Field 1 is the service's name. In the answer it is the status.
  const grpc::Slice name("\x0a" + std::string(1, static_cast<char>(service.size())) + service);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                          grpc::ByteBuffer(&name, 1), &queue);
  grpc::ByteBuffer answer;
  grpc::Status status;
  int tag_of_call = 0;
  call->StartCall();
  call->Finish(&answer, &status, &tag_of_call);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (!status.ok()) return -static_cast<int>(status.error_code());
  grpc::Slice bytes;
  return answer.DumpToSingleSlice(&bytes).ok() && bytes.size() == 2 ? bytes.begin()[1] : 0;
}

TEST_F(RunnerServiceTest, AnswersHealthChecks) {
  constexpr int kServing = 1;
  constexpr int kNotServing = 2;
  Serve();
  EXPECT_EQ(AskHealth(service_->port(), ""), kServing);
  EXPECT_EQ(AskHealth(service_->port(), "graft.rpc.Runner"), kServing);
  EXPECT_EQ(AskHealth(service_->port(), "another"), -grpc::StatusCode::NOT_FOUND);
  service_->BeginDrain();
  EXPECT_EQ(AskHealth(service_->port(), ""), kNotServing);
  EXPECT_EQ(AskHealth(service_->port(), "graft.rpc.Runner"), kNotServing);
}

TEST_F(RunnerServiceTest, AFrontendThatTakesNothingIsEndedAndHoldsUpNobody) {
  Serve({.frontend_silence_ns = 600'000'000});
  link_ = StartGrpcLink(LinkOptions(), 0, notes_).value();
  ASSERT_TRUE(notes_.WaitForUp());
  // It says that it lives, but reads nothing after its welcome.
  const auto stub = rpc::Runner::NewStub(
      grpc::CreateChannel(LinkOptions().address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->Connect(&context);
  rpc::FrontendMessage first;
  first.mutable_hello()->set_protocol(kProtocolVersion);
  first.mutable_hello()->set_frontend(12);
  ASSERT_TRUE(stream->Write(first));
  rpc::RunnerMessage welcome;
  ASSERT_TRUE(stream->Read(&welcome));
  ASSERT_TRUE(welcome.has_welcome());
  rpc::FrontendMessage asking;
  *asking.add_submit() = ToProto(MakeRequest(1));
  ASSERT_TRUE(stream->Write(asking));
  link_->Submit(MakeRequest(1));
  ASSERT_TRUE(generator_.WaitForStreams(2));
  std::thread heart([&] {
    while (stream->Write(rpc::FrontendMessage())) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(kHeartbeatNs));
    }
  });
  bool is_held_up = false;
  size_t num_steps = 0;
  while (!is_held_up && (generator_.num_streams() == 2 || num_steps < 20)) {
    generator_.Step(5, /*num_top=*/2000);
    service_->OnDelivered();
    ++num_steps;
    // The other frontend must have this step's event before the next one is made.
    is_held_up = !notes_.WaitFor([&](const Notes& notes) {
      const auto it = notes.events_.find(1);
      return it != notes.events_.end() && it->second.size() == num_steps;
    });
  }
  EXPECT_FALSE(is_held_up);
  EXPECT_EQ(generator_.num_streams(), 1u);
  context.TryCancel();
  heart.join();
}

TEST_F(RunnerServiceTest, EventsOfAStepTravelTogether) {
  Serve();
  link_ = StartGrpcLink(LinkOptions(), 0, notes_).value();
  ASSERT_TRUE(notes_.WaitForUp());
  for (uint64_t number = 1; number <= 20; ++number) link_->Submit(MakeRequest(number));
  ASSERT_TRUE(generator_.WaitForStreams(20));
  generator_.Step(5);
  // Nothing is sent before the end of the step is told.
  std::this_thread::sleep_for(std::chrono::nanoseconds(3 * kHeartbeatNs));
  EXPECT_TRUE(notes_.WaitFor([](const Notes& notes) { return notes.events_.empty(); }));
  service_->OnDelivered();
  ASSERT_TRUE(notes_.WaitFor([](const Notes& notes) { return notes.events_.size() == 20; }));
  link_->Cancel(7);
  ASSERT_TRUE(generator_.WaitForStreams(19));
  service_->OnDelivered();
  ASSERT_TRUE(notes_.WaitFor([](const Notes& notes) { return notes.events_.at(7).size() == 2; }));
  EXPECT_EQ(notes_.events_.at(7)[1].finish_reason, FinishReason::kCancelled);
}

TEST_F(RunnerServiceTest, AFrontendHearsOfItsOwnRequestsInStepsAndOfChangesAlone) {
  Serve();
  link_ = StartGrpcLink(LinkOptions(), 0, notes_).value();
  ASSERT_TRUE(notes_.WaitForUp());
  const std::vector<RequestId> both = {{11, 1}, {11, 4}, {12, 2}};
  const std::vector<RequestId> others = {{12, 2}, {12, 3}};
  const std::vector<RequestId> evicted = {{11, 9}, {12, 3}};
  service_->OnStep({.undrawn = both});
  service_->OnStep({.undrawn = both});
  ASSERT_TRUE(notes_.WaitFor([](const Notes& notes) { return notes.steps_.size() == 1; }));
  service_->OnStep({.undrawn = others, .evicted = evicted});
  ASSERT_TRUE(notes_.WaitFor([](const Notes& notes) { return notes.evicted_.size() == 1; }));
  EXPECT_EQ(notes_.steps_, (std::vector<std::vector<uint64_t>>{{1, 4}, {}}));
  EXPECT_EQ(notes_.evicted_[0], 9u);
}

TEST_F(RunnerServiceTest, ARefusalIsTheFirstEvent) {
  Serve();
  link_ = StartGrpcLink(LinkOptions(), 0, notes_).value();
  ASSERT_TRUE(notes_.WaitForUp());
  Request request = MakeRequest(3);
  request.prompt_tokens.clear();
  link_->Submit(request);
  ASSERT_TRUE(notes_.WaitFor([](const Notes& notes) { return notes.events_.count(3) == 1; }));
  const TokenEvent& event = notes_.events_.at(3).front();
  EXPECT_EQ(event.finish_reason, FinishReason::kError);
  EXPECT_EQ(event.status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(event.token, -1);
}

TEST_F(RunnerServiceTest, WhoGoesIsCancelledAndTheOthersStay) {
  Serve();
  link_ = StartGrpcLink(LinkOptions(), 0, notes_).value();
  ASSERT_TRUE(notes_.WaitForUp());
  RunnerLinkOptions options = LinkOptions();
  options.frontend = 12;
  Notes others;
  auto other = StartGrpcLink(options, 0, others).value();
  ASSERT_TRUE(others.WaitForUp());
  link_->Submit(MakeRequest(1));
  other->Submit(MakeRequest(1));
  ASSERT_TRUE(generator_.WaitForStreams(2));
  link_.reset();
  ASSERT_TRUE(generator_.WaitForStreams(1));
  EXPECT_EQ(generator_.requests().count({12, 1}), 1u);
}

TEST_F(RunnerServiceTest, AServiceThatGoesIsNoticedAndComesBack) {
  Serve();
  RunnerServiceOptions options{.port = static_cast<uint16_t>(service_->port())};
  link_ = StartGrpcLink(LinkOptions(), 0, notes_).value();
  ASSERT_TRUE(notes_.WaitForUp());
  service_.reset();
  ASSERT_TRUE(notes_.WaitFor([](const Notes& notes) { return !notes.is_up_; }));
  Serve(options);
  EXPECT_TRUE(notes_.WaitForUp());
}

// The next attempt to connect finds it.
TEST_F(RunnerServiceTest, AServiceThatStartsAfterItsCallerIsFoundAtOnce) {
  Serve();
  RunnerServiceOptions options{.port = static_cast<uint16_t>(service_->port())};
  RunnerLinkOptions calling = LinkOptions();
  service_.reset();
  link_ = StartGrpcLink(calling, 0, notes_).value();
  // Calls go on meanwhile.
  std::string why;
  int32_t num_downs = 0;
  const auto read = [&](const Notes& notes) {
    why = notes.why_.message();
    num_downs = notes.num_downs_;
    return num_downs >= 3;
  };
  ASSERT_TRUE(notes_.WaitFor(read));
  EXPECT_NE(why.find("nobody listens there"), std::string::npos) << why;
  EXPECT_EQ(why.find("TLS"), std::string::npos) << why;
  Serve(options);
  ASSERT_TRUE(notes_.WaitFor(read));
  const int32_t downs_before = num_downs;
  ASSERT_TRUE(notes_.WaitForUp());
  // One attempt may have been under way, and another may have begun before the port was open.
  EXPECT_LE(notes_.num_downs_, downs_before + 2);
}

TEST_F(RunnerServiceTest, AnotherBaseIsRefusedWithWhatToStart) {
  Serve();
  RunnerLinkOptions options = LinkOptions();
  options.base.text_hash = "another";
  link_ = StartGrpcLink(options, 0, notes_).value();
  ASSERT_TRUE(notes_.WaitForFailure());
  EXPECT_NE(notes_.why_.message().find("start the runner with"), std::string::npos)
      << notes_.why_.message();
}

TEST_F(RunnerServiceTest, AnOldProtocolIsRefusedWithWhatToUpgrade) {
  Serve();
  RunnerLinkOptions options = LinkOptions();
  options.protocol = kProtocolVersion + 2;
  link_ = StartGrpcLink(options, 0, notes_).value();
  ASSERT_TRUE(notes_.WaitForFailure());
  EXPECT_NE(notes_.why_.message().find("upgrade the older machine"), std::string::npos)
      << notes_.why_.message();
}

TEST_F(RunnerServiceTest, AFrontendOfTheVersionBeforeIsServed) {
  Serve();
  RunnerLinkOptions options = LinkOptions();
  options.protocol = kProtocolVersion - 1;
  link_ = StartGrpcLink(options, 0, notes_).value();
  ASSERT_TRUE(notes_.WaitForUp());
  EXPECT_EQ(notes_.facts_.protocol, kProtocolVersion - 1);
}

TEST(ProtocolTest, NeighboursTalkInTheOldersVersion) {
  EXPECT_EQ(AgreeOnProtocol(5, 5).value(), 5u);
  EXPECT_EQ(AgreeOnProtocol(5, 4).value(), 4u);
  EXPECT_EQ(AgreeOnProtocol(4, 5).value(), 4u);
  EXPECT_FALSE(AgreeOnProtocol(5, 3).ok());
  EXPECT_FALSE(AgreeOnProtocol(1, 0).ok());
}

TEST(ProtocolTest, WhatIsNotKnownDiffersFromNothing) {
  const BaseModelId known = {"a", "t", "w"};
  EXPECT_TRUE(CheckSameBase({"b", "t", ""}, known).ok());
  EXPECT_FALSE(CheckSameBase({"b", "t", "x"}, known).ok());
}

}  // namespace
}  // namespace graft
