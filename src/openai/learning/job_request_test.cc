#include "openai/learning/job_request.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace graft {
namespace {

LearningSetup SetupOfTest() {
  LearningSetup setup;
  setup.learners = {"next-token", "distill"};
  return setup;
}

Json Body(Json hyperparameters = Json::object()) {
  return {
      {"model", "base"},
      {"training_file", "file-1"},
      {"method",
       {{"type", "document"}, {"document", {{"hyperparameters", std::move(hyperparameters)}}}}}};
}

TEST(JobRequestTest, HyperparametersAreTheLearnersUnlessGiven) {
  ApiResult<JobRequest> bare = ParseJobRequest(
      {{"model", "base"}, {"training_file", "f"}, {"method", {{"type", "document"}}}},
      SetupOfTest());
  ASSERT_TRUE(bare.ok()) << bare.error().message;
  DocumentMethod expected;
  expected.learner = "next-token";
  EXPECT_EQ(bare->job.method, expected);
  ApiResult<JobRequest> all = ParseJobRequest(Body({{"learner", "distill"},
                                                    {"n_epochs", 3},
                                                    {"batch_size", 2.0},
                                                    {"learning_rate_multiplier", 0.5},
                                                    {"rank", 4},
                                                    {"alpha", 8},
                                                    {"window_tokens", 64},
                                                    {"held_out", 0},
                                                    {"questions", 5},
                                                    {"outputs", 0},
                                                    {"output_tokens", 9},
                                                    {"keep", 3},
                                                    {"keep_weight", 0},
                                                    {"keep_text", {"file-2", "file-3"}},
                                                    {"virtual_tokens", 6},
                                                    {"prompts", "chat"},
                                                    {"hidden_states", "none"}}),
                                              SetupOfTest());
  ASSERT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->job.method, (DocumentMethod{.learner = "distill",
                                             .passes = 3,
                                             .batch = 2,
                                             .learning_rate_factor = 0.5,
                                             .rank = 4,
                                             .virtual_tokens = 6,
                                             .alpha = 8.0,
                                             .window_tokens = 64,
                                             .held_out_share = 0.0,
                                             .questions = 5,
                                             .outputs = 0,
                                             .output_tokens = 9,
                                             .keep = 3,
                                             .keep_weight = 0.0,
                                             .keep_text = {"file-2", "file-3"},
                                             .prompts = "chat"}));
  const Json automatic = {{"learner", "auto"},    {"n_epochs", "auto"},
                          {"batch_size", "auto"}, {"learning_rate_multiplier", "auto"},
                          {"rank", "auto"},       {"keep_weight", "auto"},
                          {"keep_text", "auto"},  {"hidden_states", "auto"}};
  ApiResult<JobRequest> same = ParseJobRequest(Body(automatic), SetupOfTest());
  ASSERT_TRUE(same.ok()) << same.error().message;
  EXPECT_EQ(same->job.method, expected);
}

TEST(JobRequestTest, WhatWasRemovedIsToldInOneSentence) {
  const ApiError error = ParseJobRequest(Body({{"hidden_states", "all"}}), SetupOfTest()).error();
  EXPECT_EQ(error.code, "unsupported");
  EXPECT_EQ(error.message,
            "'method.document.hyperparameters.hidden_states' was removed since it gained too "
            "little; use distill without it");
}

TEST(JobRequestTest, SeedSuffixAndMetadataAreKept) {
  Json body = Body();
  body["seed"] = 5;
  body["suffix"] = "my.doc_1";
  body["metadata"] = {{"a", "b"}};
  ApiResult<JobRequest> request = ParseJobRequest(body, SetupOfTest());
  ASSERT_TRUE(request.ok()) << request.error().message;
  EXPECT_EQ(request->job.seed, 5U);
  EXPECT_EQ(request->job.suffix, "my.doc_1");
  EXPECT_EQ(request->job.metadata, R"({"a":"b"})");
  EXPECT_EQ(request->model, "base");
  EXPECT_EQ(request->job.training_file, "file-1");
}

TEST(JobRequestTest, WhatIsWrongIsNamed) {
  const std::pair<Json, const char*> cases[] = {
      {{{"rank", 257}}, "method.document.hyperparameters.rank"},
      {{{"rank", 0}}, "method.document.hyperparameters.rank"},
      {{{"n_epochs", "many"}}, "method.document.hyperparameters.n_epochs"},
      {{{"batch_size", 1.5}}, "method.document.hyperparameters.batch_size"},
      {{{"batch_size", 2049}}, "method.document.hyperparameters.batch_size"},
      {{{"learning_rate_multiplier", 0}},
       "method.document.hyperparameters.learning_rate_multiplier"},
      {{{"held_out", 0.6}}, "method.document.hyperparameters.held_out"},
      {{{"learner", "magic"}}, "method.document.hyperparameters.learner"},
      {{{"window_tokens", 8}}, "method.document.hyperparameters.window_tokens"},
      {{{"hidden_states", "last"}}, "method.document.hyperparameters.hidden_states"},
      {{{"keep_weight", 1001}}, "method.document.hyperparameters.keep_weight"},
      {{{"keep_text", "file-2"}}, "method.document.hyperparameters.keep_text"},
      {{{"keep_text", {1}}}, "method.document.hyperparameters.keep_text"},
      {{{"keep_text", std::vector<std::string>(9, "f")}},
       "method.document.hyperparameters.keep_text"},
      {{{"prompts", "loud"}}, "method.document.hyperparameters.prompts"},
      {{{"learning_rate", 0.1}}, "method.document.hyperparameters.learning_rate"},
      {{{"beta", 1}}, "method.document.hyperparameters.beta"}};
  for (const auto& [hyperparameters, param] : cases) {
    const ApiResult<JobRequest> request = ParseJobRequest(Body(hyperparameters), SetupOfTest());
    ASSERT_FALSE(request.ok()) << param;
    EXPECT_EQ(request.error().param, param) << request.error().message;
  }
  const std::pair<Json, const char*> fields[] = {
      {{{"model", nullptr}}, "model"},
      {{{"training_file", ""}}, "training_file"},
      {{{"method", nullptr}}, "method"},
      {{{"method", {{"type", "dpo"}}}}, "method.type"},
      {{{"method", {{"type", "document"}, {"supervised", {{"a", 1}}}}}}, "method.supervised"},
      {{{"suffix", "a/b"}}, "suffix"},
      {{{"suffix", std::string(65, 'a')}}, "suffix"},
      {{{"seed", -1}}, "seed"},
      {{{"metadata", {{"a", 1}}}}, "metadata.a"},
      {{{"validation_file", "f"}}, "validation_file"},
      {{{"hyperparameters", {{"n_epochs", 1}}}}, "hyperparameters"},
      {{{"integrations", {1}}}, "integrations"},
      {{{"colour", 1}}, "colour"}};
  for (Json misplaced :
       {Json{{"hyperparameters", {{"n_epochs", 1}}}},
        Json{{"method", {{"type", "document"}, {"hyperparameters", {{"rank", 4}}}}}}}) {
    Json body = Body();
    body.update(misplaced);
    EXPECT_NE(ParseJobRequest(body, SetupOfTest())
                  .error()
                  .message.find("give it as method.document.hyperparameters"),
              std::string::npos);
  }
  for (const auto& [change, param] : fields) {
    Json body = Body();
    body.update(change);
    const ApiResult<JobRequest> request = ParseJobRequest(body, SetupOfTest());
    ASSERT_FALSE(request.ok()) << param;
    EXPECT_EQ(request.error().param, param) << request.error().message;
  }
}

}  // namespace
}  // namespace graft
