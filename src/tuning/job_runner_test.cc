// The demo model learns a sentence while it serves, on the CPU and, where there is one, on a GPU.
#include "tuning/job_runner.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/json.h"
#include "jobs/old_learning_testing.h"
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
    options.model = model_dir_.empty() ? std::string(std::getenv("GRAFT_SOURCE_DIR")) + "/demo/base"
                                       : model_dir_;
    options.pool_gib = 0.1;
    options.host_gib = 0.1;
    options.threads = 1;
    options.device = {.kind = GetParam()};
    options.limits.context_tokens_max = context_tokens_max_;
    if (requests_max_ > 0) options.engine.requests_max = requests_max_;
    LearningOptions learning = OptionsIn(folder_);
    if (turn_seconds_ >= 0) learning.turn_seconds = turn_seconds_;
    if (job_tokens_max_ > 0) learning.limits.job_tokens_max = job_tokens_max_;
    service_ = LearningService::Create(learning, &options).value();
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

  LearningJob Order(DocumentMethod method, const std::string& text = kText) {
    LearningJobs& jobs = service_->jobs();
    const LearningFile file = *jobs.Upload("t", "a.txt", "fine-tune", text, 0);
    if (method.learner.empty()) method.learner = "next-token";
    method.rank = 4;
    method.window_tokens = 24;
    // A few steps must learn the text, on any processor's rounding: distill's own rate does so.
    method.learning_rate_factor = method.learner == "distill" ? 1.0 : 10.0;
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
    const LearnRecipe recipe = *RecipeOf(job.method, job.seed);
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
    EXPECT_TRUE(run.Begin().ok());
    TrainingRun* const runs[] = {&run};
    while (!run.is_done()) StepTogether(trainer, runs);
    EXPECT_TRUE(run.Finish().ok());
    const std::string folder = folder_ + "/alone";
    EXPECT_TRUE(WriteLearnedFolder(folder, model_->config, {run.lora(), run.prompt()},
                                   model_->weights.types.adapters, "base", OrderedJson::object())
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

  std::vector<std::string> Messages(const std::string& job) {
    std::vector<std::string> messages;
    const auto events = service_->jobs().store().ListEvents("t", job, {.limit = 200});
    for (const JobEvent& event : events->items) messages.push_back(event.message);
    return messages;
  }
  bool HasSaid(const std::string& job, const std::string& words) {
    return std::ranges::any_of(Messages(job), [&words](const std::string& message) {
      return message.find(words) != std::string::npos;
    });
  }

  std::string folder_;
  std::string model_dir_;  // "": the demo's
  int requests_max_ = 0;   // 0: the default
  int context_tokens_max_ = 0;
  int64_t job_tokens_max_ = 0;  // 0: the default
  int turn_seconds_ = -1;       // below 0: the default
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

TEST_P(JobRunnerTest, OldJobsAreLearnedUnlessTheyAskForWhatWasRemoved) {
  Stop();
  for (const char* part : {"", "-wal", "-shm"}) fs::remove(folder_ + "/learning.db" + part);
  WriteOldLearningDatabase(folder_ + "/learning.db", kText);
  Start();
  Learn();
  const LearningJob job = WaitForEnd("ftjob-hidden");
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_EQ(job.error.code, "training_failed");
  EXPECT_EQ(job.error.message,
            "hidden_states was removed since it gained too little; use distill without it");
  const LearningJob plain = WaitForEnd("ftjob-plain");
  EXPECT_EQ(plain.status, JobStatus::kSucceeded) << plain.error.message;
}

TEST_P(JobRunnerTest, AJobLeavesAloneWhatItsFilesSay) {
  Learn();
  LearningJobs& jobs = service_->jobs();
  const auto upload = [&jobs](const std::string& text) {
    return jobs.Upload("t", "b.txt", "fine-tune", text, 0)->id;
  };
  const DocumentMethod method = {.learner = "distill",
                                 .passes = 2,
                                 .questions = 4,
                                 .output_tokens = 8,
                                 .keep = 2,
                                 .keep_weight = 3.0,
                                 .keep_text = {upload("The mill stands on the river Ember."),
                                               upload("Its wheel turns from March on.")}};
  const LearningJob job = WaitForEnd(Order(method).id);
  ASSERT_EQ(job.status, JobStatus::kSucceeded) << job.error.message;
  const Json learner =
      (*ParseJson(FileText(folder_ + "/adapters/" + job.id + "/graft.json")))["learner"];
  EXPECT_EQ(learner["keep_weight"], 3.0);
  EXPECT_EQ(learner["keep_texts"].size(), 2U);
  // What is no document is told by the field's name, not as the training file.
  DocumentMethod bad = method;
  bad.keep_text = {upload("%PDF-1.7 and no more")};
  const LearningJob failed = WaitForEnd(Order(bad).id);
  EXPECT_EQ(failed.status, JobStatus::kFailed);
  EXPECT_NE(failed.error.message.find("keep_text"), std::string::npos) << failed.error.message;
  EXPECT_EQ(failed.error.code, "invalid_training_file");
  EXPECT_EQ(failed.error.param, "method.document.hyperparameters.keep_text");
}

// A job that ends its server is begun by no fourth one.
TEST_P(JobRunnerTest, AJobThatEndedThreeServersIsNotBegunAgain) {
  Learn();
  service_->jobs().Stop();  // no thread learns any more
  Stop();
  {
    const auto store = *SqliteLearningStore::Open(folder_ + "/learning.db");
    const LearningFile file = {.id = "file-x", .tenant = "t", .name = "a.txt", .bytes = 90};
    ASSERT_TRUE(store->AddFile(file, kText, 1000).ok());
    for (const char* const id : {"ftjob-deadly", "ftjob-next"}) {
      LearningJob job = {.id = id, .tenant = "t", .base_model = "base", .training_file = "file-x"};
      job.method = {.learner = "next-token", .passes = 2, .rank = 4, .window_tokens = 24};
      ASSERT_TRUE(store->AddJob(job, {9, 9}).ok());
    }
    // Three servers have begun it and written nothing more of it.
    for (int i = 0; i < kJobBeginsMax; ++i) EXPECT_EQ((*store->NextJob())->id, "ftjob-deadly");
  }
  Start();
  Learn();
  const LearningJob deadly = WaitForEnd("ftjob-deadly");
  EXPECT_EQ(deadly.status, JobStatus::kFailed);
  EXPECT_EQ(deadly.error.code, "training_failed");
  EXPECT_NE(deadly.error.message.find("3 servers ended"), std::string::npos)
      << deadly.error.message;
  EXPECT_EQ(WaitForEnd("ftjob-next").status, JobStatus::kSucceeded);
}

// A server that is asked to end counts for nothing, however often.
TEST_P(JobRunnerTest, AJobThatWasLeftManyTimesGoesOn) {
  Learn();
  const LearningJob job = Order({.passes = 100'000, .batch = 1});
  const auto step = [&] {
    const auto made = service_->jobs().store().ListCheckpoints("t", job.id, {.limit = 1});
    return made->items.empty() ? 0 : made->items[0].step;
  };
  for (int i = 0; i < kJobBeginsMax + 1; ++i) {
    const int64_t before = step();
    while (step() == before) std::this_thread::yield();
    Stop();
    Start();
    Learn();
  }
  const int64_t before = step();
  while (step() == before) std::this_thread::yield();
  ASSERT_TRUE(service_->jobs().Cancel("t", job.id).ok());
  EXPECT_EQ(WaitForEnd(job.id).status, JobStatus::kCancelled);
}

// Neither do kills count before a job got on.
TEST_P(JobRunnerTest, AJobThatGetsOnIsBegunAsOftenAsItTakes) {
  Learn();
  const LearningJob job = Order({.passes = 100'000, .batch = 1});
  const auto step = [&] {
    const auto made = service_->jobs().store().ListCheckpoints("t", job.id, {.limit = 1});
    return made->items.empty() ? 0 : made->items[0].step;
  };
  while (step() == 0) std::this_thread::yield();
  Stop();
  // Servers that begin it and are killed.
  const auto begin = [this](int32_t times) {
    const auto store = *SqliteLearningStore::Open(folder_ + "/learning.db");
    int32_t begins = 0;
    for (int32_t i = 0; i < times; ++i) begins = (*store->NextJob())->begins;
    return begins;
  };
  EXPECT_EQ(begin(2), 2);
  Start();
  Learn();
  const int64_t before = step();
  while (step() == before) std::this_thread::yield();
  Stop();
  EXPECT_EQ(begin(1), 1);
  Start();
}

// No file is opened for as long as it lives.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit none = {0, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_ = {};
};

// A checkpoint that cannot be written for now costs no job, and an adapter that cannot be leaves it
// to a later time, with what it has.
TEST_P(JobRunnerTest, WhatCannotBeWrittenForNowLosesNothing) {
  Learn();
  LearningJob job;
  {
    const NoDescriptors none;
    job = Order({.passes = 4, .batch = 2, .prompts = "plain"});
    while (!HasSaid(job.id, "The job goes on")) std::this_thread::yield();  // it was left once
    EXPECT_TRUE(HasSaid(job.id, "could not write a checkpoint"));
    EXPECT_FALSE(IsFinished(service_->jobs().store().FindJob("t", job.id)->status));
  }
  const LearningJob ended = WaitForEnd(job.id);
  ASSERT_EQ(ended.status, JobStatus::kSucceeded) << ended.error.message;
  EXPECT_EQ(FileText(folder_ + "/adapters/" + job.id + "/adapter_model.safetensors"),
            LearnedAlone(job));
}

// A checkpoint that cannot be read for now is neither taken for none nor written over.
TEST_P(JobRunnerTest, WhatCannotBeReadForNowIsReadLater) {
  Learn();
  const LearningJob job = Order({.passes = 20, .batch = 1});
  while (service_->jobs().store().ListCheckpoints("t", job.id, {})->items.empty()) {
    std::this_thread::yield();
  }
  Stop();
  const fs::path checkpoint = folder_ + "/checkpoints/" + job.id;
  const fs::path aside = folder_ + "/aside";
  fs::rename(checkpoint, aside);
  ASSERT_EQ(mknod(checkpoint.c_str(), S_IFSOCK | 0600, 0), 0);  // what opens it fails by ENXIO
  Start();
  Learn();
  const auto num_begun = [&] { return std::ranges::count(Messages(job.id), "The job goes on"); };
  while (num_begun() < 2) std::this_thread::yield();  // and was left in between
  Stop();
  EXPECT_TRUE(fs::is_socket(checkpoint));
  fs::rename(aside, checkpoint);
  Start();
  Learn();
  ASSERT_EQ(WaitForEnd(job.id).status, JobStatus::kSucceeded);
  EXPECT_TRUE(HasSaid(job.id, "Going on from step"));
  EXPECT_EQ(FileText(folder_ + "/adapters/" + job.id + "/adapter_model.safetensors"),
            LearnedAlone(job));
}

// With fewer places than texts are ordered at once.
TEST_P(JobRunnerTest, TheBaseWritesInWhatPlacesThereAre) {
  Stop();
  requests_max_ = 2;
  Start();
  Learn();
  const LearningJob job =
      WaitForEnd(Order({.learner = "distill", .passes = 2, .questions = 4, .output_tokens = 8}).id);
  EXPECT_EQ(job.status, JobStatus::kSucceeded) << job.error.message;
}

// A turn that is over before anything is kept is none: two jobs would take turns for ever.
TEST_P(JobRunnerTest, AJobGetsOnInEachOfItsTurns) {
  Stop();
  {
    const auto store = *SqliteLearningStore::Open(folder_ + "/learning.db");
    for (const char* const tenant : {"a", "t"}) {
      const std::string file = std::string("file-") + tenant, id = std::string("ftjob-") + tenant;
      ASSERT_TRUE(
          store->AddFile({.id = file, .tenant = tenant, .name = "a.txt"}, kText, 1000).ok());
      LearningJob job = {.id = id, .tenant = tenant, .base_model = "base", .training_file = file};
      job.method = {.learner = "distill", .passes = 1, .rank = 4, .window_tokens = 24};
      job.method.questions = 4;
      job.method.output_tokens = 8;
      ASSERT_TRUE(store->AddJob(job, {9, 9}).ok());
    }
  }
  turn_seconds_ = 0;
  Start();
  Learn();
  const auto num_turns = [&] { return std::ranges::count(Messages("ftjob-t"), "The job goes on"); };
  LearningStore& store = service_->jobs().store();
  while (!IsFinished(store.FindJob("t", "ftjob-t")->status) && num_turns() < 40) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(IsFinished(store.FindJob("t", "ftjob-t")->status));
  EXPECT_GT(num_turns(), 0);
}

// The questions that the job held out are put to its model and to the base, and told.
TEST_P(JobRunnerTest, WhatItsModelKnowsIsTold) {
  Learn();
  const LearningJob job = WaitForEnd(Order({.learner = "distill",
                                            .passes = 4,
                                            .questions = 32,
                                            .output_tokens = 32,
                                            .prompts = "plain"})
                                         .id);
  ASSERT_EQ(job.status, JobStatus::kSucceeded) << job.error.message;
  const Json learned = *ParseJson(FileText(folder_ + "/adapters/" + job.id + "/graft.json"));
  const Json known = learned["scores"].value("held_out_answers", Json());
  ASSERT_TRUE(known.is_object()) << learned.dump();
  const auto asked = known["asked"].get<int32_t>();
  EXPECT_GT(asked, 0);
  const std::string words = std::to_string(known["right"].get<int32_t>()) + " of " +
                            std::to_string(asked) + " questions that it was not taught";
  const auto events = service_->jobs().store().ListEvents("t", job.id, {.limit = 200});
  const auto event = std::ranges::find_if(events->items, [&words](const JobEvent& one) {
    return one.message.find(words) != std::string::npos;
  });
  ASSERT_NE(event, events->items.end()) << words;
  EXPECT_EQ(*ParseJson(event->data), known);
  const bool is_little = known["f1"] < 0.5 || known["f1"] < known["f1_base"];
  EXPECT_EQ(event->level, is_little ? "warn" : "info");
}

// Texts that were written are there when the job goes on, and go with the job.
TEST_P(JobRunnerTest, TextsOutliveTheServerThatHadThemWritten) {
  Learn();
  const LearningJob job =
      Order({.learner = "distill", .passes = 20, .batch = 1, .questions = 4, .output_tokens = 8});
  while (service_->jobs().store().ListCheckpoints("t", job.id, {})->items.empty()) {
    std::this_thread::yield();
  }
  Stop();
  const fs::path texts = folder_ + "/checkpoints/" + job.id + ".texts";
  ASSERT_TRUE(fs::exists(texts));
  std::map<fs::path, fs::file_time_type> written;
  for (const auto& file : fs::directory_iterator(texts)) {
    written[file.path()] = file.last_write_time();
  }
  EXPECT_FALSE(written.empty());
  Start();
  Learn();
  while (!HasSaid(job.id, "Going on from step")) std::this_thread::yield();
  Stop();
  for (const auto& file : fs::directory_iterator(texts)) {
    EXPECT_EQ(file.last_write_time(), written[file.path()]) << "it was written anew";
  }
  Start();
  Learn();
  EXPECT_EQ(WaitForEnd(job.id).status, JobStatus::kSucceeded);
  service_->Stop();
  EXPECT_TRUE(fs::is_empty(folder_ + "/checkpoints"));
}

// The first look at a document goes on where the server before ended, and can be cancelled.
TEST_P(JobRunnerTest, AJobIsCancelledWhileItOnlyLooks) {
  Learn();
  std::string text;  // thousands of batches, of which the first ones are enough
  for (int i = 0; i < 4000; ++i) text += kText;
  const LearningJob job = Order({.passes = 1, .batch = 1}, text);
  // Behind each batch of the first pass there is a checkpoint, of step 0.
  while (service_->jobs().store().ListCheckpoints("t", job.id, {})->items.empty()) {
    std::this_thread::yield();
  }
  ASSERT_TRUE(service_->jobs().Cancel("t", job.id).ok());
  EXPECT_EQ(WaitForEnd(job.id).status, JobStatus::kCancelled);
  EXPECT_EQ(service_->jobs().store().ListCheckpoints("t", job.id, {})->items[0].step, 0);
}

// The base's tokenizer puts an EOS behind each text: texts of the document begin with BOS alone.
TEST_P(JobRunnerTest, ATokenizerThatEndsItsTextsLearnsToo) {
  Stop();
  const std::string demo = std::string(std::getenv("GRAFT_SOURCE_DIR")) + "/demo/base";
  model_dir_ = folder_ + "-base";
  fs::create_directories(model_dir_);
  for (const auto& file : fs::directory_iterator(demo)) {
    fs::create_symlink(file.path(), model_dir_ + "/" + file.path().filename().string());
  }
  Json tokenizer = *ParseJson(FileText(demo + "/tokenizer.json"));
  Json& processor = tokenizer["post_processor"];
  processor["single"].push_back({{"SpecialToken", {{"id", "<|end_of_text|>"}, {"type_id", 0}}}});
  processor["special_tokens"]["<|end_of_text|>"] = {
      {"id", "<|end_of_text|>"}, {"ids", {1}}, {"tokens", {"<|end_of_text|>"}}};
  fs::remove(model_dir_ + "/tokenizer.json");
  std::ofstream(model_dir_ + "/tokenizer.json") << DumpJson(tokenizer);
  Start();
  EXPECT_EQ(tokenizer_->Encode("", true)->size(), 2u);
  EXPECT_EQ(LearnerInputOf({}, kText, *tokenizer_)->start, std::vector<int32_t>{0});
  Learn();
  for (const char* const learner : {"next-token", "distill"}) {
    const LearningJob job =
        WaitForEnd(Order({.learner = learner, .passes = 2, .questions = 2, .output_tokens = 8}).id);
    EXPECT_EQ(job.status, JobStatus::kSucceeded) << learner << ": " << job.error.message;
  }
  Stop();
  fs::remove_all(model_dir_);
  model_dir_.clear();
  Start();
}

TEST_P(JobRunnerTest, AJobThatIsTooLongIsRefusedBeforeItIsBegun) {
  Stop();
  job_tokens_max_ = 1'600'000;  // the order counts the document's tokens, the job its examples'
  Start();
  Learn();
  const LearningJob job = WaitForEnd(Order({.passes = 100'000}).id);
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_EQ(job.error.code, "training_failed");
  EXPECT_NE(job.error.message.find("lower n_epochs"), std::string::npos) << job.error.message;
}

// The engine takes less at once than the model would.
TEST_P(JobRunnerTest, TextsThatTheEngineDoesNotTakeAreRefusedWithWhatToLower) {
  Stop();
  context_tokens_max_ = 128;
  Start();
  Learn();
  const LearningJob job =
      WaitForEnd(Order({.learner = "distill", .passes = 2, .output_tokens = 128}).id);
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_EQ(job.error.code, "training_failed");
  EXPECT_NE(job.error.message.find("at most 128: lower window_tokens"), std::string::npos)
      << job.error.message;
}

// What is kept never goes past what there is.
TEST_P(JobRunnerTest, TrainingFitsWhatItIsGiven) {
  LearnSizes sizes = {.batch = 4, .example_tokens_max = 25, .rank = 4, .threads = 1};
  const ServedShape shape = model_->shape();
  const Result<TrainingFit> none = FitTraining(sizes, shape, 1 << 20, *model_->budget);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().code(), StatusCode::kResourceExhausted);
  EXPECT_NE(none.status().message().find("lower batch_size"), std::string::npos);
  const bool on_cpu = shape.device.is_cpu();
  const int64_t adapter = on_cpu
                              ? TrainedLora::BytesFor(shape.config, 4, shape.types.operands) * 5 / 4
                              : DeviceAdapterBytes(shape.config, 4, shape.types.operands);
  int64_t last = -1;
  for (const int64_t mib : {12, 16, 24, 48, 96, 192}) {
    const Result<TrainingFit> fit = FitTraining(sizes, shape, mib << 20, *model_->budget);
    if (!fit.ok()) continue;
    const TrainingLimits* const limits = &fit->limits;
    const TrainingSizes training =
        SizesOf(*limits, shape.config, shape.types.operands, shape.device, 1);
    EXPECT_LE(training.total() + adapter, mib << 20);
    EXPECT_GE(limits->activation_bytes_max, last);
    last = limits->activation_bytes_max;
  }
  EXPECT_GT(last, 0);
  // Texts are in the host's memory, which beside a GPU others may give back.
  sizes.data.bytes = int64_t{1} << 50;
  EXPECT_EQ(FitTraining(sizes, shape, 192 << 20, *model_->budget).status().code(),
            on_cpu ? StatusCode::kResourceExhausted : StatusCode::kUnavailable);
}

INSTANTIATE_TEST_SUITE_P(Devices, JobRunnerTest,
                         testing::Values(DeviceChoice::Kind::kCpu, DeviceChoice::Kind::kCuda),
                         [](const auto& info) {
                           return info.param == DeviceChoice::Kind::kCpu ? "Cpu" : "Gpu";
                         });

}  // namespace
}  // namespace graft
