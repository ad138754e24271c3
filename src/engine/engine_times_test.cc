// What an engine tells of requests that are traced.
#include <gmock/gmock.h>

#include "engine/engine_testing.h"

namespace graft {
namespace engine_times_test {
namespace {

constexpr const char* kTraceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

class EngineTimesTest : public EngineAdapterTest {
 protected:
  void MakeTraced(const ExecutorLimits& limits = TestLimits()) {
    Make(limits);
    harness_->engine.SetOnTimes([this](RequestTimes times) { told_.push_back(std::move(times)); });
  }
  std::unique_ptr<TestClient> SubmitTraced(const std::string& adapter, int32_t prompt_tokens,
                                           int32_t tokens_max) {
    Request request = harness_->MakeRequest(Prompt(prompt_tokens), tokens_max);
    request.UseAdapter(adapter);
    request.traceparent = kTraceparent;
    request.log_id = "req_1";
    return harness_->Submit(std::move(request));
  }

  std::vector<RequestTimes> told_;
};

TEST_F(EngineTimesTest, TellsWhenWhatHappened) {
  MakeTraced();
  harness_->AddAdapter("aa");
  harness_->loader.set_delay(5);
  harness_->clock.AdvanceNs(10'000);
  auto client = SubmitTraced("aa", 5, 4);
  harness_->RunAll();
  ExpectAnswered(*client, "aa");
  ASSERT_EQ(told_.size(), 1u);
  const RequestTimes& times = told_[0];
  EXPECT_EQ(times.traceparent, kTraceparent);
  EXPECT_EQ(times.log_id, "req_1");
  EXPECT_EQ(times.adapter_hash, "aa");
  EXPECT_EQ(times.arrival_ns, 10'000);
  EXPECT_GT(times.load_begin_ns, times.arrival_ns);
  EXPECT_GT(times.load_end_ns, times.load_begin_ns);
  EXPECT_GE(times.first_step_ns, times.load_end_ns);
  EXPECT_GE(times.first_token_ns, times.first_step_ns);
  EXPECT_EQ(times.end_ns - times.first_token_ns, 3 * kStepNs);
  EXPECT_EQ(times.prompt_tokens, 5);
  EXPECT_EQ(times.output_tokens, 4);
  EXPECT_EQ(times.finish_reason, FinishReason::kLength);
}

TEST_F(EngineTimesTest, AnAdapterThatWasThereWasNotLoadedForIt) {
  MakeTraced();
  harness_->AddAdapter("aa");
  harness_->clock.AdvanceNs(10'000);
  Run("aa");
  EXPECT_TRUE(told_.empty()) << "it came without a traceparent";
  SubmitTraced("aa", 5, 3);
  SubmitTraced("", 5, 3);
  harness_->RunAll();
  ASSERT_EQ(told_.size(), 2u);
  for (const RequestTimes& times : told_) EXPECT_LE(times.load_end_ns, times.arrival_ns);
  EXPECT_EQ(told_[1].load_end_ns + told_[0].load_end_ns,
            std::max(told_[0].load_end_ns, told_[1].load_end_ns))
      << "the base model is never loaded";
}

TEST_F(EngineTimesTest, TellsOfThoseThatWereCancelledAndFailed) {
  MakeTraced();
  harness_->clock.AdvanceNs(10'000);
  auto cancelled = SubmitTraced("", 5, 30);
  harness_->Step();
  harness_->engine.Cancel(cancelled->request.id);
  harness_->Step();
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_EQ(told_[0].finish_reason, FinishReason::kCancelled);
  EXPECT_EQ(told_[0].output_tokens, 1);
  harness_->AddAdapter("lost");
  harness_->loader.HangFolder("lost");
  SubmitTraced("lost", 5, 3);
  for (int step = 0; step < 5; ++step) harness_->Step();
  harness_->loader.ReleaseFolder("lost", UnavailableError("it does not answer"));
  harness_->RunAll();
  ASSERT_EQ(told_.size(), 2u);
  EXPECT_EQ(told_[1].finish_reason, FinishReason::kError);
  EXPECT_EQ(told_[1].status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(told_[1].first_step_ns, 0);
}

TEST_F(EngineTimesTest, CountsPreemptions) {
  ExecutorLimits limits = TestLimits();
  limits.num_pages = 12;
  MakeTraced(limits);
  harness_->clock.AdvanceNs(10'000);
  for (int i = 0; i < 3; ++i) SubmitTraced("", 5, 20);
  harness_->RunAll();
  ASSERT_EQ(told_.size(), 3u);
  int64_t preemptions = 0;
  for (const RequestTimes& times : told_) preemptions += times.preemptions;
  EXPECT_GT(preemptions, 0);
  EXPECT_EQ(preemptions, Now().preemptions);
}

}  // namespace
}  // namespace engine_times_test
}  // namespace graft
