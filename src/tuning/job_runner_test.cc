// The demo model learns a sentence while it serves, on the CPU and, where there is one, on a GPU.
#include "tuning/job_runner.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/json.h"
#include "learn/learned_folder.h"
#include "learn/training_device.h"
#include "tensor/allocations.h"
#include "tensor/cuda_memory.h"
#include "tuning/job_at_work.h"
#include "tuning/learn_memory.h"
#include "tuning/learning_service.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

constexpr char kText[] =
    "The keeper lived in the tower with a grey parrot named Solomon, who could say eleven words.";

LearningOptions OptionsIn(const std::string& folder) {
  return {.folder = folder, .share = 0.5, .gib = 0.4, .checkpoint_seconds = 0};
}

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class JobRunnerTest : public testing::TestWithParam<DeviceChoice::Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == DeviceChoice::Kind::kCuda && NumCudaDevices() == 0) {
      GTEST_SKIP() << "no GPU here";
    }
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '_');
    folder_ = fs::temp_directory_path() / ("graft_jobs_" + std::to_string(getpid()) + name);
    Start();
  }
  void TearDown() override {
    if (folder_.empty()) return;
    Stop();
    fs::remove_all(folder_);
  }

  void Start() {
    RuntimeOptions options;
    options.model = std::string(std::getenv("GRAFT_SOURCE_DIR")) + "/demo/base";
    options.pool_gib = 0.1;
    options.host_gib = 0.1;
    options.threads = 1;
    options.device = {.kind = GetParam()};
    service_ = LearningService::Create(OptionsIn(folder_), &options).value();
    model_ = LoadModel(options, /*quiet=*/true).value();
    service_->SetModel(*model_);
    tokenizer_ = Tokenizer::Load(options.model).value();
    runtime_ = Runtime::Create(options, *model_, /*lora=*/true).value();
    runtime_->engine().Start();
  }
  void Stop() {
    service_->Stop();
    runtime_->engine().Stop();
    service_.reset();
    runtime_.reset();
  }
  void Learn() { ASSERT_TRUE(service_->Start(*runtime_, *tokenizer_).ok()); }

  LearningJob Order(DocumentMethod method) {
    LearningJobs& jobs = service_->jobs();
    const LearningFile file = *jobs.Upload("t", "a.txt", "fine-tune", kText, 0);
    method.learner = "next-token";
    method.rank = 4;
    method.window_tokens = 24;
    method.learning_rate_factor = 10.0;
    return *jobs.Create(
        {.tenant = "t", .training_file = file.id, .seed = 1, .method = std::move(method)});
  }
  LearningJob WaitForEnd(const std::string& id) {
    for (;;) {
      LearningJob job = *service_->jobs().store().FindJob("t", id);
      if (IsFinished(job.status)) return job;
      std::this_thread::yield();
    }
  }

  // What graft learn makes of the text by the job's settings, as the file of its numbers.
  std::string LearnedAlone(const LearningJob& job) {
    const LearnRecipe recipe = *RecipeOf(job);
    const LearnerInput input = *LearnerInputOf(recipe, kText, *tokenizer_);
    const auto learner = *MakeLearner(recipe, *tokenizer_, "");
    const LearnerInput* const inputs[] = {&input};
    LearnSizes sizes = SizesOfDocuments(recipe, *learner, inputs);
    sizes.kept_gib = 0.01;
    MemorySum sum(model_->device);
    const TrainingLimits limits = PlanTraining(sizes, model_->shape(), *model_->budget, &sum);
    Trainer trainer(model_->config, model_->weights, limits, model_->stream);
    LearnerData data = *learner->Prepare(input, nullptr);
    const TrainedShape shape = ShapeOf(recipe, *learner, data.text.size());
    TrainingRun run(trainer, std::move(data), RatesOf(recipe, *learner), shape, recipe.seed, "");
    run.Begin();
    TrainingRun* const runs[] = {&run};
    while (!run.is_done()) StepTogether(trainer, runs);
    run.Finish();
    const std::string folder = folder_ + "/alone";
    EXPECT_TRUE(WriteLearnedFolder(folder, model_->config, {run.lora(), run.prompt()},
                                   model_->weights.dtype, "base", OrderedJson::object())
                    .ok());
    return FileText(folder + "/adapter_model.safetensors");
  }

  std::vector<int32_t> Answer(const std::string& adapter) {
    Request request;
    request.id = ++last_id_;
    request.prompt_tokens = {5, 6, 7};
    request.sampling.temperature = 0.0f;
    request.sampling.tokens_max = 8;
    if (!adapter.empty()) request.UseAdapter(runtime_->catalog().Find(adapter)->key());
    auto stream = std::make_shared<TokenStream>();
    EXPECT_TRUE(runtime_->engine().Submit(std::move(request), stream).ok());
    std::vector<int32_t> tokens;
    for (;;) {
      const TokenEvent event = stream->Pop();
      EXPECT_NE(event.finish_reason, FinishReason::kError) << event.status.ToString();
      tokens.push_back(event.token);
      if (event.finish_reason != FinishReason::kNone) return tokens;
    }
  }

  std::string folder_;
  std::unique_ptr<LearningService> service_;
  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Runtime> runtime_;
  uint64_t last_id_ = 0;
};

TEST_P(JobRunnerTest, AJobBecomesAnAdapterThatIsThereAgain) {
  Learn();
  const LearningJob job = WaitForEnd(Order({.passes = 4, .batch = 2}).id);
  ASSERT_EQ(job.status, JobStatus::kSucceeded) << job.error.message;
  const AdapterInfo info = *runtime_->catalog().Find(job.adapter);
  EXPECT_EQ(info.hash, job.hash);
  EXPECT_EQ(info.owner, "t");
  const std::vector<int32_t> answer = Answer(job.adapter);
  Stop();
  Start();
  EXPECT_FALSE(runtime_->catalog().Find(job.adapter).ok());
  Learn();
  EXPECT_EQ(runtime_->catalog().Find(job.adapter)->owner, "t");
  EXPECT_EQ(Answer(job.adapter), answer);
  EXPECT_TRUE(service_->jobs().DeleteAdapter("t", job.adapter).ok());
  EXPECT_FALSE(runtime_->catalog().Find(job.adapter).ok());
}

TEST_P(JobRunnerTest, AJobIsWhatIsLearnedAloneAndChatsBesideItAreTheSame) {
  Learn();
  const std::vector<int32_t> answer = Answer("");
  const LearningJob order = Order({.passes = 12, .batch = 2});
  int32_t num_beside = 0;
  while (!IsFinished(service_->jobs().store().FindJob("t", order.id)->status)) {
    EXPECT_EQ(Answer(""), answer);
    ++num_beside;
  }
  EXPECT_GT(num_beside, 0);
  ASSERT_EQ(WaitForEnd(order.id).status, JobStatus::kSucceeded);
  const std::string learned =
      FileText(folder_ + "/adapters/" + order.id + "/adapter_model.safetensors");
  EXPECT_FALSE(learned.empty());
  EXPECT_EQ(learned, LearnedAlone(order));
}

TEST_P(JobRunnerTest, AServerThatEndsLeavesItsJobToTheNext) {
  Learn();
  const LearningJob job = Order({.passes = 20, .batch = 1});
  while (service_->jobs().store().ListCheckpoints("t", job.id, {})->items.empty()) {
    std::this_thread::yield();
  }
  Stop();
  Start();
  Learn();
  ASSERT_EQ(WaitForEnd(job.id).status, JobStatus::kSucceeded);
  EXPECT_EQ(FileText(folder_ + "/adapters/" + job.id + "/adapter_model.safetensors"),
            LearnedAlone(job));
  bool went_on = false;
  const auto events = service_->jobs().store().ListEvents("t", job.id, {.limit = 200});
  ASSERT_TRUE(events.ok());
  for (const JobEvent& event : events->items) {
    went_on = went_on || event.message.starts_with("Going on from step");
  }
  EXPECT_TRUE(went_on);
}

TEST_P(JobRunnerTest, MemoryThatRunsOutCostsTheJobAlone) {
  Learn();
  const std::vector<int32_t> answer = Answer("");
  LearningJob job;
  {
    const AllocationLimit limit(model_->device, 100'000);
    job = WaitForEnd(Order({.passes = 4, .batch = 2}).id);
    EXPECT_EQ(Answer(""), answer);
  }
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_EQ(job.error.code, "out_of_memory");
  EXPECT_EQ(WaitForEnd(Order({.passes = 4, .batch = 2}).id).status, JobStatus::kSucceeded);
}

TEST_P(JobRunnerTest, WhatIsNotLearnedLeavesNoFolder) {
  Learn();
  LearningJob order = Order({.passes = 8, .batch = 1});
  const LearningJob job = WaitForEnd(order.id);
  ASSERT_EQ(job.status, JobStatus::kSucceeded) << job.error.message;
  order.method.learning_rate_factor = 1000.0;
  order.method.learner = "next-token";
  const LearningJob worse = WaitForEnd(service_->jobs().Create(order)->id);
  EXPECT_EQ(worse.status, JobStatus::kFailed);
  EXPECT_EQ(worse.error.code, "training_failed");
  EXPECT_NE(worse.error.message.find("learning_rate_multiplier"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ + "/adapters/" + worse.id));
  EXPECT_TRUE(fs::exists(folder_ + "/adapters/" + job.id));
}

// What is kept never goes past what there is.
TEST_P(JobRunnerTest, TrainingFitsWhatItIsGiven) {
  const LearnSizes sizes = {.batch = 4, .example_tokens_max = 25, .rank = 4, .threads = 1};
  const ServedShape shape = model_->shape();
  const Result<TrainingLimits> none = FitTraining(sizes, shape, 1 << 20, *model_->budget);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(none.status().message().find("--learn-gib"), std::string::npos);
  const bool on_cpu = shape.device.is_cpu();
  const int64_t adapter = on_cpu ? TrainedLora::BytesFor(shape.config, 4, shape.dtype) * 5 / 4
                                 : GpuAdapterBytes(shape.config, 4, shape.dtype);
  int64_t last = -1;
  for (const int64_t mib : {12, 16, 24, 48, 96, 192}) {
    const Result<TrainingLimits> limits = FitTraining(sizes, shape, mib << 20, *model_->budget);
    if (!limits.ok()) continue;
    const TrainingSizes training =
        on_cpu ? SizesOf(*limits, shape.config, shape.dtype, 1)
               : GpuTrainingSizesOf(*limits, shape.config, shape.dtype, shape.device);
    EXPECT_LE(training.total() + adapter, mib << 20);
    EXPECT_GE(limits->activation_bytes_max, last);
    last = limits->activation_bytes_max;
  }
  EXPECT_GT(last, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, JobRunnerTest,
                         testing::Values(DeviceChoice::Kind::kCpu, DeviceChoice::Kind::kCuda),
                         [](const auto& info) {
                           return info.param == DeviceChoice::Kind::kCpu ? "Cpu" : "Gpu";
                         });

TEST(RecipeTest, AJobsMethodIsTheRecipe) {
  LearningJob job;
  job.seed = 3;
  job.method = {.learner = "distill",
                .passes = 5,
                .batch = 6,
                .learning_rate_factor = 0.5,
                .rank = 7,
                .alpha = 14.0,
                .window_tokens = 99,
                .held_out_share = 0.1,
                .questions = 2,
                .outputs = 1,
                .output_tokens = 11,
                .keep = 12};
  const LearnRecipe recipe = *RecipeOf(job);
  EXPECT_EQ(recipe.learner, LearnerKind::kDistill);
  const auto learner = MakeNextTokenLearner();
  EXPECT_EQ(ShapeOf(recipe, *learner, 0).scale, 2.0f);
  const LearnerRates rates = RatesOf(recipe, *learner);
  EXPECT_EQ(rates.passes, 5);
  EXPECT_EQ(rates.batch, 6);
  EXPECT_EQ(rates.learning_rate, 0.5 * learner->rates().learning_rate);
  EXPECT_EQ(recipe.window_tokens, 99);
  EXPECT_EQ(recipe.keep, 12);
  EXPECT_EQ(recipe.seed, 3U);
  job.method.learner = "magic";
  EXPECT_FALSE(RecipeOf(job).ok());
}

}  // namespace
}  // namespace graft
