#include "jobs/learning_jobs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "document/document.h"
#include "jobs/sqlite_learning_store.h"

namespace graft {
namespace {

class LearningJobsTest : public testing::Test {
 protected:
  LearningJobs& Jobs(LearningSetup setup = {}) {
    setup.base_model = "the base";
    setup.learners = {"next-token"};
    jobs_ = std::make_unique<LearningJobs>(*store_, std::move(setup));
    return *jobs_;
  }

  LearningJob Order(const std::string& file) {
    return {.tenant = "t", .training_file = file, .suffix = "mine"};
  }

  std::unique_ptr<LearningStore> store_ = *SqliteLearningStore::Open(":memory:");
  std::unique_ptr<LearningJobs> jobs_;
};

TEST_F(LearningJobsTest, WhatIsNoDocumentIsRefusedByReason) {
  LearningJobs& jobs = Jobs();
  const std::pair<std::string, const char*> cases[] = {
      {"", "the file is empty"},
      {std::string("ab\0cd", 5), "this is binary"},
      {"Gr\xfc\xdf", "this is not UTF-8"},
      {std::string(10'000'000, 'x'), "the file has 10000000 bytes"},
      {"PK\x03\x04 and more", "an archive"},
      {" \n\t ", "no text"}};
  for (const auto& [content, words] : cases) {
    const Status status = jobs.Upload("t", "a.txt", "fine-tune", content, 0).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << words;
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
  EXPECT_TRUE(store_->ListFiles("t", "", {})->items.empty());
  EXPECT_TRUE(jobs.Upload("t", "a.pdf", "fine-tune", "%PDF-1.7 ...", 0).ok());
}

TEST_F(LearningJobsTest, AFileIsKeptAsLongAsItsOwnerOrTheServerSays) {
  LearningJobs& jobs = Jobs({.limits = {.file_seconds = 7200}});
  const LearningFile file = *jobs.Upload("t", "a.txt", "fine-tune", "words", 3600);
  EXPECT_EQ(file.expires_at, file.created_at + 3600);
  const LearningFile other = *jobs.Upload("t", "a.txt", "fine-tune", "words", 0);
  EXPECT_EQ(other.expires_at, other.created_at + 7200);
  EXPECT_EQ(Jobs({.limits = {.file_seconds = 0}})
                .Upload("t", "a.txt", "fine-tune", "words", 0)
                ->expires_at,
            0);
}

TEST_F(LearningJobsTest, AServerThatDoesNotTrainSaysWhy) {
  LearningJobs& jobs = Jobs({.trains = [] { return UnimplementedError("no GPU trains"); }});
  const LearningFile file = *jobs.Upload("t", "a.txt", "fine-tune", "words", 0);
  EXPECT_EQ(jobs.Create(Order(file.id)).status().message(), "no GPU trains");
}

// Before it waits for its turn, where its file says enough.
TEST_F(LearningJobsTest, AJobThatIsTooLongIsRefusedWithWhatToLower) {
  LearningJobs& jobs = Jobs({.limits = {.job_tokens_max = 1000}});
  const std::string text(8000, 'x');
  const LearningFile plain = *jobs.Upload("t", "a.txt", "fine-tune", text, 0);
  LearningJob order = Order(plain.id);
  order.method = {.learner = "next-token", .passes = 1};
  EXPECT_TRUE(jobs.Create(order).ok());
  order.method.passes = 2;
  const Status passes = jobs.Create(order).status();
  EXPECT_EQ(passes.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(passes.message().find("lower n_epochs"), std::string::npos) << passes.message();
  order.method = {.learner = "distill", .passes = 1, .window_tokens = 16, .questions = 10};
  EXPECT_EQ(jobs.Create(order).status().code(), StatusCode::kInvalidArgument);
  // How much text markup has is not known before it is read.
  order.training_file = jobs.Upload("t", "a.html", "fine-tune", text, 0)->id;
  EXPECT_TRUE(jobs.Create(order).ok());
  EXPECT_EQ(CheckJobLength(1, 0, 10).code(), StatusCode::kOk);
  EXPECT_FALSE(CheckJobLength(int64_t{1} << 62, int64_t{1} << 40, 10).ok());
}

TEST_F(LearningJobsTest, WhatIsToBeLeftAloneIsAsMuchAsADocument) {
  LearningJobs& jobs = Jobs();
  LearningJob order = Order(jobs.Upload("t", "a.txt", "fine-tune", "words", 0)->id);
  const std::string half(static_cast<size_t>(kDocumentBytesMax / 2), 'x');
  for (int i = 0; i < 2; ++i) {
    order.method.keep_text.push_back(jobs.Upload("t", "b.txt", "fine-tune", half, 0)->id);
  }
  EXPECT_TRUE(jobs.Create(order).ok());
  order.method.keep_text.push_back(jobs.Upload("t", "c.txt", "fine-tune", "x", 0)->id);
  const Status status = jobs.Create(order).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("keep_text"), std::string::npos) << status.message();
}

TEST_F(LearningJobsTest, AnOperatorCancelsAnybodysJob) {
  LearningJobs& jobs = Jobs();
  const LearningFile file = *jobs.Upload("t", "a.txt", "fine-tune", "words", 0);
  const LearningJob job = *jobs.Create(Order(file.id));
  EXPECT_EQ(jobs.Cancel("operator", job.id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(jobs.CancelAnybodys(job.id)->status, JobStatus::kCancelled);
  EXPECT_EQ(jobs.CancelAnybodys(job.id).status().code(), StatusCode::kNotFound);
}

TEST_F(LearningJobsTest, AJobWakesTheThreadThatLearnsAndStopEndsIt) {
  LearningJobs& jobs = Jobs();
  const LearningFile file = *jobs.Upload("t", "a.txt", "fine-tune", "words", 0);
  std::string found;
  std::atomic<bool> ended{false};
  std::thread learner([&] {
    std::optional<LearningJob> job = jobs.WaitForJob();
    found = job->id;
    job->status = JobStatus::kSucceeded;
    EXPECT_TRUE(store_->Update(*job).ok());
    EXPECT_FALSE(jobs.WaitForJob().has_value());
    ended = true;
  });
  const LearningJob job = *jobs.Create(Order(file.id));
  EXPECT_EQ(job.base_model, "the base");
  while (store_->FindJob("t", job.id)->status != JobStatus::kSucceeded) std::this_thread::yield();
  EXPECT_FALSE(ended);
  jobs.Stop();
  learner.join();
  EXPECT_EQ(found, job.id);
}

TEST_F(LearningJobsTest, AnAdapterIsDeletedByItsOwnerAlone) {
  std::vector<std::string> removed;
  LearningJobs& jobs = Jobs({.remove_adapter = [&removed](const LearningJob& job) {
    removed.push_back(job.adapter);
    return OkStatus();
  }});
  const LearningFile file = *jobs.Upload("t", "a.txt", "fine-tune", "words", 0);
  LearningJob job = *jobs.Create(Order(file.id));
  job.status = JobStatus::kSucceeded;
  job.adapter = LearnedName(job);
  EXPECT_TRUE(job.adapter.starts_with("ft:the-base:mine:")) << job.adapter;
  EXPECT_TRUE(store_->Update(job).ok());
  EXPECT_EQ(jobs.DeleteAdapter("other", job.adapter).code(), StatusCode::kNotFound);
  EXPECT_TRUE(jobs.DeleteAdapter("t", job.adapter).ok());
  EXPECT_EQ(jobs.DeleteAdapter("t", job.adapter).code(), StatusCode::kNotFound);
  EXPECT_EQ(removed, std::vector<std::string>{job.adapter});
}

}  // namespace
}  // namespace graft
