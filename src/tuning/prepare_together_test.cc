#include "tuning/learning_plan.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>

namespace graft {
namespace {

class NoWriter : public TextWriter {
 public:
  Result<std::vector<TaughtText>> Write(std::span<const WriteOrder> /*orders*/) override {
    return std::vector<TaughtText>{};
  }
  int32_t num_choices() const override { return 1; }
};

// Says which document it was by the text. One without tokens fails.
class CountingLearner : public Learner {
 public:
  std::string_view name() const override { return "counting"; }
  LearnerRates rates() const override { return {}; }
  int32_t ExampleTokensMax(int32_t /*window_tokens*/) const override { return 1; }
  LearnerDataSize DataMax(const LearnerInput& /*input*/, int32_t /*num_choices*/) const override {
    return {};
  }
  Result<LearnerData> Prepare(const LearnerInput& input, TextWriter* writer) override {
    std::unique_lock lock(mutex_);
    writers.insert(writer);
    if (input.tokens.empty()) return InvalidArgumentError("nothing in it");
    ++num_inside_;
    changed_.notify_all();
    is_together &= changed_.wait_for(lock, std::chrono::seconds(60),
                                     [this] { return num_inside_ >= num_at_once; });
    LearnerData data;
    data.text = input.tokens;
    return data;
  }

  int num_at_once = 1;
  bool is_together = true;
  std::set<TextWriter*> writers;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_inside_ = 0;
};

class PrepareTogetherTest : public ::testing::Test {
 protected:
  explicit PrepareTogetherTest() {
    for (int32_t i = 0; i < 5; ++i) inputs_[i].tokens = {i};
    for (const LearnerInput& input : inputs_) pointers_.push_back(&input);
  }

  LearnerInput inputs_[5];
  std::vector<const LearnerInput*> pointers_;
  NoWriter first_, second_;
  CountingLearner learner_;
  std::stop_source stop_;
};

TEST_F(PrepareTogetherTest, EveryWriterHasAThreadAndEveryDocumentIsPrepared) {
  learner_.num_at_once = 2;
  TextWriter* const writers[] = {&first_, &second_};
  const auto all = PrepareTogether(learner_, pointers_, writers, stop_);
  ASSERT_EQ(all.size(), 5u);
  for (int32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(all[static_cast<size_t>(i)].ok());
    EXPECT_EQ(all[static_cast<size_t>(i)]->text, std::vector<int32_t>{i});
  }
  EXPECT_TRUE(learner_.is_together) << "one waited for the other in vain";
  EXPECT_EQ(learner_.writers, (std::set<TextWriter*>{&first_, &second_}));
  EXPECT_FALSE(stop_.stop_requested());
}

TEST_F(PrepareTogetherTest, WithoutWritersNothingIsWritten) {
  const auto all = PrepareTogether(learner_, pointers_, {}, stop_);
  EXPECT_TRUE(all[4].ok());
  EXPECT_EQ(learner_.writers, std::set<TextWriter*>{nullptr});
}

TEST_F(PrepareTogetherTest, OneThatFailsEndsTheOthers) {
  inputs_[1].tokens.clear();
  TextWriter* const writers[] = {&first_};
  const auto all = PrepareTogether(learner_, pointers_, writers, stop_);
  EXPECT_TRUE(all[0].ok());
  EXPECT_EQ(all[1].status().code(), StatusCode::kInvalidArgument);
  for (size_t i = 2; i < 5; ++i) EXPECT_EQ(all[i].status().code(), StatusCode::kCancelled);
  EXPECT_TRUE(stop_.stop_requested());
}

}  // namespace
}  // namespace graft
