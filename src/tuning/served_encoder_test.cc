// Jobs by an encoder that the server has loaded, on the CPU and, where there is one, on a GPU. The
// encoder has made two steps, which is enough to tell its adapters apart.
#include "tuning/served_encoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "tuning/corpus_training.h"
#include "tuning/learning_service.h"
#include "tuning/teacher_prompts.h"

namespace graft {
namespace served_encoder_test {

namespace fs = std::filesystem;

constexpr char kText[] =
    "The keeper lived in the tower with a grey parrot named Solomon, who could say eleven words.";
constexpr int32_t kCompression = 2;

std::string Model() { return std::string(std::getenv("GRAFT_SOURCE_DIR")) + "/demo/base"; }

std::string FileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

RuntimeOptions OptionsOf(DeviceChoice::Kind device) {
  RuntimeOptions options;
  options.model = Model();
  options.pool_gib = 0.1;
  options.host_gib = 0.1;
  options.threads = 1;
  options.device = {.kind = device};
  return options;
}

// Teaches one for two steps, on the CPU.
void TeachTo(const std::string& folder) {
  std::ofstream corpus(folder + ".jsonl");
  for (int i = 0; i < 12; ++i) {
    corpus << R"({"text": "The light )" << i << R"( is kept by Finch.", )"
           << R"("questions": [{"question": "Who keeps it?", "answer": "Finch"}]})"
           << "\n";
  }
  corpus.close();
  const auto tokenizer = Tokenizer::Load(Model()).value();
  CorpusChoices choices = {.corpus = folder + ".jsonl",
                           .folder = folder,
                           .settings = {.rates = {.learning_rate = 1e-2, .batch = 2},
                                        .steps = 2,
                                        .rank = 4,
                                        .document_tokens = 64,
                                        .questions = 1,
                                        .held_out = 2},
                           .compressions = {kCompression},
                           .readers = 1};
  LearnRecipe recipe{.prompts = TeacherPrompts::kChat};
  const AskedForm texts = *AskedForm::Make(LoadChatTemplate(Model()).value(), *tokenizer);
  const ModelConfig config = *LoadModelConfig(Model());
  const CorpusSettings settings = *SettingsOf(choices, recipe, texts, config);
  LearnSizes sizes = SizesOfCorpus(settings, config);
  sizes.kept_gib = 0.01;
  const RuntimeOptions options = OptionsOf(DeviceChoice::Kind::kCpu);
  TrainingLimits limits;
  const auto model = LoadModel(options, true, LearningFits(options, sizes, false, &limits)).value();
  const CorpusHost host = {.on_look = [](const CorpusProgress&) {},
                           .on_step = [](int32_t, int32_t, double) {},
                           .on_begin = [](bool, int32_t) {}};
  ASSERT_EQ(*TeachEncoder(choices, settings, {settings.form, {kCompression}, recipe.prompts}, texts,
                          *tokenizer, *model, *IdentifyBase(Model()), limits, host),
            0);
}

class ServedEncoderTest : public ::testing::TestWithParam<DeviceChoice::Kind> {
 protected:
  void SetUp() override {
    if (GetParam() == DeviceChoice::Kind::kCuda && NumCudaDevices() == 0) {
      GTEST_SKIP() << "no GPU here";
    }
    std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::ranges::replace(name, '/', '_');
    folder_ = ::testing::TempDir() + "served_encoder_" + name;
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    TeachTo(encoder());
  }
  void TearDown() override {
    if (service_ != nullptr) {
      service_->Stop();
      runtime_->engine().Stop();
    }
    if (!folder_.empty()) fs::remove_all(folder_);
  }

  std::string encoder() const { return folder_ + "/encoder"; }
  std::string learned() const { return folder_ + "/learned"; }

  void Start(bool has_encoder = true, double gib = 0.4, int context_tokens_max = 0) {
    RuntimeOptions options = OptionsOf(GetParam());
    options.limits.context_tokens_max = context_tokens_max;
    const LearningOptions learning = {.folder = learned(),
                                      .share = 0.5,
                                      .gib = gib,
                                      .encoder = has_encoder ? encoder() : "",
                                      .checkpoint_seconds = 0};
    service_ = LearningService::Create(learning, &options).value();
    EXPECT_EQ(options.learn_encoder_bytes > 0, has_encoder);
    model_ = LoadModel(options, /*quiet=*/true).value();
    service_->SetModel(*model_);
    tokenizer_ = Tokenizer::Load(options.model).value();
    runtime_ = Runtime::Create(options, *model_, /*lora=*/true).value();
    runtime_->engine().Start();
    ASSERT_TRUE(service_->Start(*runtime_, *tokenizer_).ok());
  }

  Result<LearningJob> Order(DocumentMethod method, const std::string& text = kText) {
    LearningJobs& jobs = service_->jobs();
    const LearningFile file = *jobs.Upload("t", "a.txt", "fine-tune", text, 0);
    return jobs.Create(
        {.tenant = "t", .training_file = file.id, .seed = 1, .method = std::move(method)});
  }
  LearningJob EndOf(const LearningJob& order) {
    for (;;) {
      LearningJob job = *service_->jobs().store().FindJob("t", order.id);
      if (IsFinished(job.status)) return job;
      std::this_thread::yield();
    }
  }
  std::string Prompt(const LearningJob& job) const {
    return FileText(learned() + "/adapters/" + job.id + "/prompt/adapter_model.safetensors");
  }
  Json GraftJson(const LearningJob& job) const {
    return *ParseJson(FileText(learned() + "/adapters/" + job.id + "/graft.json"));
  }

  // What graft learn makes of the text, as the file of its memory.
  std::string ReadAlone() {
    const KnownEncoder known = *OpenEncoder(encoder(), Model(), model_->config, *tokenizer_);
    LearnRecipe recipe;
    const LearnerInput input = *LearnerInputOf(recipe, kText, *tokenizer_);
    const EncoderRoom room = *RoomFor(known, input.tokens.size(), kCompression, model_->config);
    LearnSizes sizes = SizesOf(known, room, model_->config);
    sizes.kept_gib = 0.01;
    MemorySum sum(model_->device);
    const TrainingLimits limits = PlanTraining(sizes, model_->shape(), *model_->budget, &sum);
    const auto reader = *EncoderAtWork::Make(known, room, *model_, limits, model_->stream);
    const LearnedAdapter adapter = *reader->Read(input.tokens, kCompression);
    const std::string folder = folder_ + "/alone";
    EXPECT_TRUE(WriteAdapter(folder, adapter, OrderedJson::object(), *model_).ok());
    return FileText(folder + "/prompt/adapter_model.safetensors");
  }

  std::string folder_;
  std::unique_ptr<LearningService> service_;
  std::unique_ptr<LoadedModel> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<Runtime> runtime_;
};

// Longer documents take more room, and what else is learned takes all of it in between. None of it
// changes what becomes of a document, and the encoder's files are not read again.
TEST_P(ServedEncoderTest, AJobIsWhatTheCommandMakes) {
  Start();
  const std::string alone = ReadAlone();
  ASSERT_FALSE(alone.empty());
  fs::remove_all(encoder());
  const LearningJob job = EndOf(*Order({.learner = "encoder"}));
  ASSERT_EQ(job.status, JobStatus::kSucceeded) << job.error.message;
  EXPECT_EQ(Prompt(job), alone);
  EXPECT_GT(job.num_virtual_tokens, 0);
  EXPECT_EQ(runtime_->catalog().Find(job.adapter)->hash, job.hash);
  std::string longer;
  for (int i = 0; i < 90; ++i) longer += kText;
  const LearningJob small = EndOf(*Order({.learner = "encoder", .compression = 8}, longer));
  ASSERT_EQ(small.status, JobStatus::kSucceeded) << small.error.message;
  EXPECT_EQ(GraftJson(small)["learner"]["compression"], 8);
  ASSERT_EQ(EndOf(*Order({.learner = "next-token", .passes = 4, .rank = 4})).status,
            JobStatus::kSucceeded);
  const LearningJob again = EndOf(*Order({.learner = "encoder"}));
  EXPECT_EQ(Prompt(again), alone);
  EXPECT_EQ(again.hash, job.hash);
}

TEST_P(ServedEncoderTest, DistillBeginsWhereTheEncoderEnds) {
  Start();
  DocumentMethod method = {.learner = "distill",
                           .steps = 3,
                           .batch = 4,
                           .window_tokens = 24,
                           .questions = 4,
                           .output_tokens = 8,
                           .keep = 2,
                           .begin = "encoder"};
  const LearningJob job = EndOf(*Order(method));
  ASSERT_EQ(job.status, JobStatus::kSucceeded) << job.error.message;
  const Json made = GraftJson(job);
  EXPECT_EQ(made["learner"]["begins_with"]["compression"], kCompression);
  EXPECT_EQ(made["learner"]["steps"], 3);
  EXPECT_EQ(made["kind"], "lora and prompt");
  const LearningJob read = EndOf(*Order({.learner = "encoder"}));
  EXPECT_EQ(job.num_virtual_tokens, read.num_virtual_tokens);
  EXPECT_NE(Prompt(job), Prompt(read));
  method.rank = 8;
  const LearningJob other = EndOf(*Order(method));
  EXPECT_EQ(other.status, JobStatus::kFailed);
  EXPECT_NE(other.error.message.find("rank is 8"), std::string::npos) << other.error.message;
  method.rank = 0;
  method.alpha = 8.0;
  const LearningJob scaled = EndOf(*Order(method));
  EXPECT_NE(scaled.error.message.find("alpha"), std::string::npos) << scaled.error.message;
}

TEST_P(ServedEncoderTest, ADocumentThatIsTooLongCostsItsJob) {
  Start();
  std::string text;
  for (int i = 0; i < 400; ++i) text += kText;
  const LearningJob job = EndOf(*Order({.learner = "encoder"}, text));
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_EQ(job.error.code, "invalid_training_file");
  EXPECT_NE(job.error.message.find("make adapters of its parts"), std::string::npos)
      << job.error.message;
}

// Like a training, reading looks between its parts whether the job is still wanted.
TEST_P(ServedEncoderTest, ACancelledJobReadsNoFurther) {
  Start();
  const KnownEncoder known = *OpenEncoder(encoder(), Model(), model_->config, *tokenizer_);
  std::vector<int32_t> tokens(static_cast<size_t>(known.form.memory.window_tokens) + 100, 100);
  const EncoderRoom room = *RoomFor(known, tokens.size(), kCompression, model_->config);
  LearnSizes sizes = SizesOf(known, room, model_->config);
  sizes.kept_gib = 0.01;
  MemorySum sum(model_->device);
  const TrainingLimits limits = PlanTraining(sizes, model_->shape(), *model_->budget, &sum);
  const auto reader = *EncoderAtWork::Make(known, room, *model_, limits, model_->stream);
  int num_windows = 0;
  const auto one_alone = [&num_windows](const std::function<Status()>& window) {
    return num_windows++ == 0 ? window() : Status(StatusCode::kCancelled, "no more");
  };
  const Status status = reader->Read(tokens, kCompression, one_alone).status();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(num_windows, 2);
  EXPECT_FALSE(RoomFor(known, 0, kCompression, model_->config).ok());

  std::string text;
  for (int i = 0; i < 150; ++i) text += kText;
  const LearningJob order = *Order({.learner = "encoder"}, text);
  const auto is_reading = [&] {
    const auto events = service_->jobs().store().ListEvents("t", order.id, {.limit = 20});
    return std::ranges::any_of(events->items, [](const JobEvent& event) {
      return event.message.starts_with("The encoder reads");
    });
  };
  while (!is_reading()) std::this_thread::yield();
  ASSERT_TRUE(service_->jobs().Cancel("t", order.id).ok());
  EXPECT_EQ(EndOf(order).status, JobStatus::kCancelled);
  EXPECT_FALSE(fs::exists(learned() + "/adapters/" + order.id));
}

TEST_P(ServedEncoderTest, WhatTakesTooMuchMemoryIsSaidByWhatHelps) {
  Start(/*has_encoder=*/true, /*gib=*/0.001);
  const LearningJob job = EndOf(*Order({.learner = "encoder"}));
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_EQ(job.error.code, "out_of_memory");
  EXPECT_NE(job.error.message.find("a larger compression takes less"), std::string::npos)
      << job.error.message;
  EXPECT_EQ(job.error.message.find("batch_size"), std::string::npos) << job.error.message;
}

// The server takes less at once than the model would.
TEST_P(ServedEncoderTest, AMemoryThatNoQuestionFitsBehindCostsItsJob) {
  Start(/*has_encoder=*/true, /*gib=*/0.4, /*context_tokens_max=*/16);
  const LearningJob job = EndOf(*Order({.learner = "encoder", .compression = 1}));
  EXPECT_EQ(job.status, JobStatus::kFailed);
  EXPECT_EQ(job.error.code, "invalid_training_file");
  EXPECT_NE(job.error.message.find("a larger compression makes room"), std::string::npos)
      << job.error.message;
  const LearningJob smaller = EndOf(*Order({.learner = "encoder", .compression = 8}));
  EXPECT_EQ(smaller.status, JobStatus::kSucceeded) << smaller.error.message;
}

TEST_P(ServedEncoderTest, AServerWithoutAnEncoderSaysSo) {
  Start(/*has_encoder=*/false);
  for (const DocumentMethod& method : {DocumentMethod{.learner = "encoder"},
                                       DocumentMethod{.learner = "distill", .begin = "encoder"}}) {
    const Status status = Order(method).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find("start it with --learn-encoder"), std::string::npos);
  }
}

TEST_P(ServedEncoderTest, AnEncoderOfAnotherBaseIsRefusedBeforeTheModelIsRead) {
  Json json = *ParseJson(FileText(encoder() + "/encoder/graft.json"));
  for (const char* const field : {"compressions", "read_tokens", "behind"}) {
    Json other = json;
    other["encoder"][field] = other["encoder"][field].is_array() ? Json::array({0}) : Json(0);
    std::ofstream(encoder() + "/encoder/graft.json") << other.dump();
    const auto known =
        OpenEncoder(encoder(), Model(), *LoadModelConfig(Model()), **Tokenizer::Load(Model()));
    EXPECT_NE(known.status().message().find("not of an encoder"), std::string::npos) << field;
  }
  json["base"]["weights_hash"] = "0";
  std::ofstream(encoder() + "/encoder/graft.json") << json.dump();
  RuntimeOptions options = OptionsOf(GetParam());
  LearningOptions learning = {.folder = learned(), .share = 0.5, .encoder = encoder()};
  const auto refused = [&] { return LearningService::Create(learning, &options).status(); };
  EXPECT_NE(refused().message().find("was taught on another base model"), std::string::npos);
  learning.encoder = folder_ + "/none";
  EXPECT_NE(refused().message().find("there is no encoder in"), std::string::npos);
  learning.share = 0.0;
  EXPECT_NE(refused().message().find("--learn-share"), std::string::npos);
  learning.folder = "";
  EXPECT_NE(refused().message().find("--learn-dir"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Devices, ServedEncoderTest,
                         ::testing::Values(DeviceChoice::Kind::kCpu, DeviceChoice::Kind::kCuda),
                         [](const auto& info) {
                           return info.param == DeviceChoice::Kind::kCpu ? "Cpu" : "Gpu";
                         });

}  // namespace served_encoder_test
}  // namespace graft
