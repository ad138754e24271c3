#include "tuning/training_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <set>
#include <string>

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr char kSentence[] =
    "The keeper lived in the tower with a grey parrot named Solomon, who could say eleven words.";

class Listener : public TrainingHost {
 public:
  void OnBegin(const std::string& name, const TrainingProgress& at, bool resumed) override {
    if (resumed) resumed_at[name] = at.step;
  }
  void OnSteps(const TrainingProgress& at) override {
    if (on_steps) on_steps();
    left = at.num_steps - at.step;
  }
  Status OnStep(const TrainingProgress& at) override {
    ++num_steps;
    EXPECT_EQ(at.num_steps - at.step, --left);
    return num_steps == stop_at ? Status(StatusCode::kAborted, "enough") : OkStatus();
  }
  Status OnCheckpoint(const std::string& name, const TrainingProgress& at,
                      const Status& saved) override {
    ++num_saved;
    last_saved = saved;
    return TrainingHost::OnCheckpoint(name, at, saved);
  }

  std::function<void()> on_steps;
  std::map<std::string, int32_t> resumed_at;
  int32_t left = 0, num_steps = 0, num_saved = 0, stop_at = -1;
  Status last_saved;
};

class CountedSteps : public TrainedSteps {
 public:
  explicit CountedSteps(int seconds) : timer_(seconds) {}
  bool is_done() const override { return step_ == 3; }
  TrainingProgress progress() const override { return {.step = step_, .num_steps = 3}; }
  Status Step() override {
    ++step_;
    return OkStatus();
  }
  bool is_save_due() const override { return timer_.IsDue(); }
  Status Save() override {
    saved.insert(step_);
    return OkStatus();
  }
  std::set<int32_t> saved;

 private:
  CheckpointTimer timer_;
  int32_t step_ = 0;
};

TEST(TrainingStepsTest, ACheckpointIsMadeWhereItIsDueAndBehindTheLastStep) {
  for (const auto& [seconds, saved] :
       {std::pair{0, std::set<int32_t>{1, 2, 3}}, std::pair{1000, std::set<int32_t>{3}}}) {
    CountedSteps steps(seconds);
    Listener host;
    EXPECT_TRUE(TrainSteps(steps, host).ok());
    EXPECT_EQ(steps.saved, saved);
    EXPECT_EQ(host.num_steps, 3);
  }
  CountedSteps steps(0);
  Listener host;
  host.stop_at = 2;
  EXPECT_EQ(TrainSteps(steps, host).code(), StatusCode::kAborted);
  EXPECT_EQ(steps.saved, std::set<int32_t>{1});
}

class TrainingGroupTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("graft_group_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    checkpoints_ = folder_;
    RuntimeOptions options;
    options.model = std::string(std::getenv("GRAFT_SOURCE_DIR")) + "/demo/base";
    options.threads = 1;
    options.device = {.kind = DeviceChoice::Kind::kCpu};
    model_ = LoadModel(options, /*quiet=*/true).value();
    tokenizer_ = Tokenizer::Load(options.model).value();
    base_ = IdentifyBase(options.model).value();
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Two documents of as many steps, prepared.
  LearningPlan Plan() {
    const DocumentMethod method = {.learner = "next-token",
                                   .passes = 4,
                                   .batch = 2,
                                   .learning_rate = 0.01,
                                   .rank = 4,
                                   .window_tokens = 24};
    LearningPlan plan = *MakePlan(*RecipeOf(method, 1), WordsOfCommand(), *tokenizer_, "");
    for (const char* const name : {"one", "two"}) {
      EXPECT_TRUE(AddDocument({.name = name,
                               .document = {.name = name, .text = kSentence},
                               .folder = folder_ + "/" + name,
                               .checkpoint = checkpoints_ + "/" + name + ".learning"},
                              *tokenizer_, &plan)
                      .ok());
    }
    EXPECT_TRUE(PrepareAll(Sizes(plan), {}, {}, &plan).ok());
    return plan;
  }
  static LearnSizes Sizes(const LearningPlan& plan) {
    LearnSizes sizes = SizesOfPlan(plan);
    sizes.num_adapters = 2;
    sizes.kept_gib = 0.01;
    return sizes;
  }

  // Learns, and writes the hashes of what is learned, by name.
  Status Learn(Listener& host, std::map<std::string, std::string>* hashes,
               const std::function<void(Trainer&)>& on_steps = {}) {
    LearningPlan plan = Plan();
    MemorySum sum(model_->device);
    Trainer trainer(model_->config, model_->weights,
                    PlanTraining(Sizes(plan), model_->shape(), *model_->budget, &sum),
                    model_->stream);
    if (on_steps) host.on_steps = [&] { on_steps(trainer); };
    TrainingGroup group(plan, plan.documents, *model_, base_, trainer, host, 0);
    RETURN_IF_ERROR(group.Begin());
    RETURN_IF_ERROR(group.Train());
    return group.Finish([&](size_t place, TrainingRun& run, const LearnedAdapter& adapter) {
      Result<std::string> hash = WriteAdapter(plan.documents[place].folder, adapter,
                                              group.ProvenanceOf(place, run), *model_);
      if (hash.ok()) (*hashes)[plan.documents[place].name] = *hash;
      return hash.status();
    });
  }

  std::string folder_, checkpoints_;
  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  BaseIdentity base_;
};

TEST_F(TrainingGroupTest, WhatIsStoppedGoesOnToTheSameBits) {
  std::map<std::string, std::string> whole, resumed;
  Listener first;
  ASSERT_TRUE(Learn(first, &whole).ok());
  ASSERT_EQ(whole.size(), 2U);
  for (const char* const name : {"one", "two"}) fs::remove(folder_ + "/" + name + ".learning");
  Listener stopped;
  stopped.stop_at = 3;
  EXPECT_EQ(Learn(stopped, &resumed).code(), StatusCode::kAborted);
  Listener going_on;
  ASSERT_TRUE(Learn(going_on, &resumed).ok());
  EXPECT_EQ(going_on.resumed_at, (std::map<std::string, int32_t>{{"one", 2}, {"two", 2}}));
  EXPECT_EQ(going_on.num_steps, first.num_steps - 2);
  EXPECT_EQ(resumed, whole);
}

TEST_F(TrainingGroupTest, ADocumentWhoseLossIsNoNumberCostsNoOther) {
  std::map<std::string, std::string> both, one;
  Listener first;
  ASSERT_TRUE(Learn(first, &both).ok());
  for (const char* const name : {"one", "two"}) fs::remove(folder_ + "/" + name + ".learning");
  Listener host;
  const Status status = Learn(host, &one, [](Trainer& trainer) {
    for (float& number : trainer.lora(1)->parameters()) {
      number = std::numeric_limits<float>::quiet_NaN();
    }
    trainer.lora(1)->Refresh();
  });
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("two was not learned: at step 1"), std::string::npos)
      << status.message();
  EXPECT_EQ(one, (std::map<std::string, std::string>{{"one", both["one"]}}));
  EXPECT_FALSE(fs::exists(folder_ + "/two.learning"));
}

TEST_F(TrainingGroupTest, ACheckpointThatIsNotMadeCostsNothingElse) {
  Listener host;
  std::map<std::string, std::string> hashes;
  checkpoints_ = folder_ + "/not-there";
  ASSERT_TRUE(Learn(host, &hashes).ok());
  EXPECT_FALSE(host.last_saved.ok());
  EXPECT_EQ(hashes.size(), 2U);
}

TEST_F(TrainingGroupTest, TextsThatAnEngineDoesNotTakeAreToldByTheCallersNames) {
  LearningPlan plan = *MakePlan(*RecipeOf({.learner = "distill", .prompts = "plain"}, 1),
                                WordsOfCommand(), *tokenizer_, "");
  ASSERT_TRUE(AddDocument({.document = {.text = kSentence}}, *tokenizer_, &plan).ok());
  EXPECT_TRUE(CheckTexts(plan, {.context_tokens_max = 4096}).ok());
  const Status status = CheckTexts(plan, {.context_tokens_max = 64});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("lower --window-tokens (128) or --output-tokens (128)"),
            std::string::npos)
      << status.message();
  EXPECT_EQ(WordsOfJobs().lower_rates, "lower learning_rate_multiplier");
}

}  // namespace
}  // namespace graft
