#include "bench/open_load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace graft {
namespace {

// Gives every request a token about every millisecond, on a thread of its own. It refuses adapter
// "refused" and never answers for "silent".
class FakeGenerator : public Generator {
 public:
  FakeGenerator() : thread_([this] { Run(); }) {}
  ~FakeGenerator() override {
    stop_ = true;
    thread_.join();
  }

  Status Submit(Request request, std::shared_ptr<TokenStream> stream) override {
    if (request.adapter_hash() == "refused") return NotFoundError("no such adapter");
    const std::lock_guard lock(mutex_);
    ids_.insert(request.id);
    running_.push_back({std::move(request), std::move(stream)});
    in_flight_max_ = std::max(in_flight_max_, running_.size());
    return OkStatus();
  }
  void Cancel(RequestId id) override {
    const std::lock_guard lock(mutex_);
    cancelled_.insert(id);
  }
  GeneratorLimits limits() const override { return {}; }

  size_t in_flight_max() {
    const std::lock_guard lock(mutex_);
    return in_flight_max_;
  }
  size_t num_ids() {
    const std::lock_guard lock(mutex_);
    return ids_.size();
  }

 private:
  struct Running {
    Request request;
    std::shared_ptr<TokenStream> stream;  // shared with its reader
    int32_t num_tokens = 0;
  };

  void Run() {
    while (!stop_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(mutex_);
      std::erase_if(running_, [this](Running& one) { return Advance(one); });
    }
  }
  bool Advance(Running& one) {
    TokenEvent event;
    if (cancelled_.count(one.request.id) > 0) {
      event.finish_reason = FinishReason::kCancelled;
    } else if (one.request.adapter_hash() == "silent") {
      return false;
    } else {
      event.token = 1;
      if (++one.num_tokens == one.request.sampling.tokens_max) {
        event.finish_reason = FinishReason::kLength;
      }
    }
    const bool is_last = event.finish_reason != FinishReason::kNone;
    one.stream->Push(std::move(event));
    return is_last;
  }

  std::mutex mutex_;
  std::deque<Running> running_;
  std::set<RequestId> ids_, cancelled_;
  size_t in_flight_max_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;  // last, because it uses the others
};

std::vector<LoadRequest> Requests(int count, int32_t output_tokens,
                                  const std::string& adapter = "") {
  std::vector<LoadRequest> requests(static_cast<size_t>(count));
  for (LoadRequest& request : requests) {
    request.adapter_hash = adapter;
    request.prompt_tokens = {1};
    request.output_tokens = output_tokens;
  }
  return requests;
}

TEST(OpenLoadTest, EveryTokenOfManyRequestsIsTimed) {
  FakeGenerator generator;
  const OpenLoadResult result =
      RunOpenLoad(generator, Requests(2000, 3), {.keep_token_times = true});
  ASSERT_EQ(result.requests.size(), 2000u);
  EXPECT_EQ(result.token_seconds.size(), 6000u);
  EXPECT_EQ(generator.num_ids(), 2000u);
  for (const OpenLoadTiming& timing : result.requests) {
    ASSERT_TRUE(timing.status.ok());
    EXPECT_EQ(timing.output_tokens, 3);
    ASSERT_EQ(timing.token_seconds.size(), 3u);
    EXPECT_EQ(timing.token_seconds.front(), timing.first_token_seconds);
    EXPECT_EQ(timing.token_seconds.back(), timing.last_token_seconds);
    EXPECT_EQ(timing.end_seconds, timing.last_token_seconds);
    EXPECT_LE(timing.due_seconds, timing.first_token_seconds);
    EXPECT_LE(timing.first_token_seconds, timing.last_token_seconds);
    EXPECT_LE(timing.end_seconds, result.seconds);
  }
}

TEST(OpenLoadTest, ARequestIsDueWhenItArrivesWhateverElseRuns) {
  FakeGenerator generator;
  std::vector<LoadRequest> requests = Requests(3, 2);
  requests[1].arrival_seconds = 0.02;
  requests[2].arrival_seconds = 0.05;
  const OpenLoadResult result = RunOpenLoad(generator, requests, {});
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(result.requests[i].due_seconds, requests[i].arrival_seconds);
    EXPECT_GE(result.requests[i].first_token_seconds, requests[i].arrival_seconds);
  }
}

TEST(OpenLoadTest, AClosedLoopKeepsItsLimit) {
  FakeGenerator generator;
  const OpenLoadResult result = RunOpenLoad(generator, Requests(50, 2), {.in_flight_max = 4});
  EXPECT_EQ(result.requests.size(), 50u);
  EXPECT_EQ(generator.in_flight_max(), 4u);
}

TEST(OpenLoadTest, WhatDoesNotEndIsCancelled) {
  FakeGenerator generator;
  const OpenLoadResult result =
      RunOpenLoad(generator, Requests(10, 2, "silent"), {.in_flight_max = 3, .stop_seconds = 0.05});
  ASSERT_EQ(result.requests.size(), 3u) << "nothing is submitted after the end";
  for (const OpenLoadTiming& timing : result.requests) {
    EXPECT_TRUE(timing.status.ok());
    EXPECT_LT(timing.first_token_seconds, 0.0);
    EXPECT_LT(timing.end_seconds, 0.0);
  }
}

TEST(OpenLoadTest, EndsWhenAsked) {
  FakeGenerator generator;
  std::atomic<bool> stop{false};
  std::thread asker([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop = true;
  });
  const OpenLoadResult result = RunOpenLoad(generator, Requests(2, 2, "silent"), {.stop = &stop});
  asker.join();
  EXPECT_EQ(result.requests.size(), 2u);
}

TEST(OpenLoadTest, ARefusalIsKeptAndTheRestRuns) {
  FakeGenerator generator;
  std::vector<LoadRequest> requests = Requests(3, 1);
  requests[1].adapter_hash = "refused";
  const OpenLoadResult result = RunOpenLoad(generator, requests, {.in_flight_max = 1});
  EXPECT_EQ(result.requests[1].status.code(), StatusCode::kNotFound);
  EXPECT_TRUE(result.requests[2].status.ok());
  EXPECT_EQ(result.token_seconds.size(), 2u);
}

}  // namespace
}  // namespace graft
