#include "tuning/engine_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace graft {
namespace {

// Takes so many requests at once. Each gets one token, which is its prompt's, once all places are
// taken or a reader waits.
class NarrowGenerator : public Generator {
 public:
  explicit NarrowGenerator(size_t places) : places_(places) {}

  Status Submit(Request request, std::shared_ptr<TokenStream> stream) override {
    ++num_submits;
    if (request.prompt_tokens.size() > 100) return InvalidArgumentError("too long");
    if (running_.size() >= places_) return ResourceExhaustedError("the queue is full");
    TokenEvent event;
    event.token = request.prompt_tokens[0];
    event.top_logprobs = {{event.token, -0.5f}, {9, -2.0f}};
    event.finish_reason = FinishReason::kLength;
    if (num_displaced > 0) {
      --num_displaced;
      event = {};
      event.finish_reason = FinishReason::kError;
      event.status = ResourceExhaustedError("its place was given to another tenant");
    }
    running_.insert(request.id);
    stream->Push(std::move(event));
    most = std::max(most, running_.size());
    return OkStatus();
  }
  void Cancel(RequestId id) override { running_.erase(id); }
  GeneratorLimits limits() const override {
    return {.context_tokens_max = 100, .vocab_size = 2, .requests_max = 2};
  }
  int32_t RetryAfterS(const std::string& /*tenant*/, double /*weight*/) override { return 7; }

  void EndAll() { running_.clear(); }
  void set_places(size_t places) { places_ = places; }

  int num_submits = 0;
  int num_displaced = 0;
  size_t most = 0;

 private:
  size_t places_;
  std::set<RequestId> running_;
};

class EngineWriterTest : public testing::Test {
 protected:
  // Each wait makes room.
  WriterSettings Settings() {
    return {.orders_at_once = 8,
            .on_text =
                [this](int64_t, int64_t) {
                  generator_.EndAll();
                  return true;
                },
            .wait =
                [this](std::chrono::seconds time) {
                  waits_.push_back(static_cast<int>(time.count()));
                  generator_.EndAll();
                  generator_.set_places(2);
                  return waits_.size() < 4;
                }};
  }
  std::vector<WriteOrder> Orders(int32_t count) {
    std::vector<WriteOrder> orders;
    for (int32_t i = 0; i < count; ++i) orders.push_back({.prompt = {i}, .tokens_max = 1});
    return orders;
  }
  void ExpectTexts(const Result<std::vector<TaughtText>>& texts, int32_t count) {
    ASSERT_TRUE(texts.ok()) << texts.status().ToString();
    ASSERT_EQ(texts->size(), static_cast<size_t>(count));
    for (int32_t i = 0; i < count; ++i) {
      EXPECT_EQ((*texts)[static_cast<size_t>(i)].tokens, std::vector<int32_t>{i});
    }
  }

  NarrowGenerator generator_{2};
  std::vector<int> waits_;
};

TEST_F(EngineWriterTest, FewerPlacesThanOrdersAtOnceAreEnough) {
  EngineWriter writer(generator_, Settings());
  ExpectTexts(writer.Write(Orders(9)), 9);
  EXPECT_EQ(generator_.most, 2u);
  EXPECT_TRUE(waits_.empty());
}

TEST_F(EngineWriterTest, AFullQueueIsWaitedFor) {
  generator_.set_places(0);
  EngineWriter writer(generator_, Settings());
  ExpectTexts(writer.Write(Orders(3)), 3);
  EXPECT_EQ(waits_, std::vector<int>{7});
}

TEST_F(EngineWriterTest, ATextWhosePlaceWasGivenAwayIsOrderedAgain) {
  generator_.num_displaced = 3;
  EngineWriter writer(generator_, Settings());
  ExpectTexts(writer.Write(Orders(4)), 4);
  EXPECT_EQ(waits_.size(), 3u);
}

TEST_F(EngineWriterTest, AnOrderThatIsTooLongIsNoFaultOfTheDocument) {
  EngineWriter writer(generator_, Settings());
  const std::vector<WriteOrder> orders = {{.prompt = std::vector<int32_t>(101), .tokens_max = 1}};
  EXPECT_EQ(writer.Write(orders).status().code(), StatusCode::kInternal);
}

TEST_F(EngineWriterTest, AWaitCanBeGivenUp) {
  generator_.num_displaced = 100;
  EngineWriter writer(generator_, Settings());
  EXPECT_EQ(writer.Write(Orders(4)).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(waits_.size(), 4u);
}

}  // namespace
}  // namespace graft
