#include "jobs/learning_json.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace graft {
namespace {

TEST(LearningJsonTest, RecordsAreReadAsTheyWereWritten) {
  const LearningFile file = {"file-1", "t", "a.txt", "fine-tune", int64_t{5} << 32, 3, 4};
  EXPECT_EQ(*LearningFileOf(ToJson(file)), file);
  LearningJob job;
  job.id = "ftjob-1";
  job.tenant = "t";
  job.base_model = "base";
  job.training_file = "file-1";
  job.suffix = "s";
  job.metadata = R"({"a":"b"})";
  job.seed = 4'000'000'000U;
  job.method.learner = "distill";
  job.method.alpha = 0.5;
  job.created_at = 1;
  job.status = JobStatus::kFailed;
  job.started_at = 2;
  job.finished_at = 3;
  job.estimated_finish = 4;
  job.trained_tokens = 5;
  job.error = {"code", "message", "param"};
  job.adapter = "ft:base:1";
  job.hash = "h";
  job.rank_max = 6;
  job.num_virtual_tokens = 7;
  job.bytes = 8;
  job.base_hash = "bh";
  job.folder = "ftjob-1-9";
  EXPECT_EQ(*LearningJobOf(ToJson(job)), job);
  const JobEvent event = *JobEventOf(ToJson(JobEvent{1, 2, "warn", "words", "{}"}));
  EXPECT_EQ(event.number, 1);
  EXPECT_EQ(event.created_at, 2);
  EXPECT_EQ(event.level, "warn");
  EXPECT_EQ(event.message, "words");
  EXPECT_EQ(event.data, "{}");
  std::string name;
  const JobCheckpoint checkpoint = *JobCheckpointOf(ToJson(JobCheckpoint{1, 2, 0.5}, "f"), &name);
  EXPECT_EQ(checkpoint.step, 1);
  EXPECT_EQ(checkpoint.loss, 0.5);
  EXPECT_EQ(name, "f");
}

TEST(LearningJsonTest, WhatIsNoRecordIsRefused) {
  for (const char* const text : {"", "[]", "no json", "{}"}) {
    EXPECT_EQ(LearningFileOf(text).status().code(), StatusCode::kDataLoss) << text;
    EXPECT_EQ(LearningJobOf(text).status().code(), StatusCode::kDataLoss) << text;
    EXPECT_EQ(JobEventOf(text).status().code(), StatusCode::kDataLoss) << text;
  }
  // A later version's record: a field of another type is left alone.
  EXPECT_EQ(LearningJobOf(R"({"id":"j","seed":"many","new":1})")->seed, 0U);
}

}  // namespace
}  // namespace graft
