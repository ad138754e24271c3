#include "jobs/sqlite_learning_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "jobs/old_learning_testing.h"

namespace graft {
namespace {

namespace fs = std::filesystem;

class SqliteLearningStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = *SqliteLearningStore::Open(":memory:", [this] { return now_; });
  }

  LearningFile AddFile(const std::string& tenant, const std::string& content,
                       int64_t expires_at = 0) {
    LearningFile file = {.id = NewLearningId("file-"),
                         .tenant = tenant,
                         .name = "a.txt",
                         .purpose = "fine-tune",
                         .bytes = static_cast<int64_t>(content.size()),
                         .created_at = now_,
                         .expires_at = expires_at};
    const Status added = store_->AddFile(file, content, 100);
    EXPECT_TRUE(added.ok()) << added.ToString();
    return file;
  }

  LearningJob AddJob(const std::string& tenant, const std::string& file,
                     std::vector<std::string> keep_text = {}) {
    LearningJob job = {.id = NewLearningId("ftjob-"),
                       .tenant = tenant,
                       .base_model = "base",
                       .training_file = file,
                       .suffix = "s",
                       .metadata = R"({"a":"b"})",
                       .seed = 7};
    job.method = {.learner = "next-token", .passes = 3, .learning_rate_factor = 0.5};
    job.method.keep_text = std::move(keep_text);
    job.created_at = now_;
    const Status added = store_->AddJob(job, {3, 4});
    EXPECT_TRUE(added.ok()) << added.ToString();
    return job;
  }

  void Finish(LearningJob job, JobStatus status, const std::string& adapter = "") {
    job.status = status;
    job.adapter = adapter;
    job.finished_at = ++now_;
    EXPECT_TRUE(store_->Update(job).ok());
  }

  std::string NextId() {
    const Result<std::optional<LearningJob>> next = store_->NextJob();
    return next.ok() && next->has_value() ? (*next)->id : "";
  }

  int64_t now_ = 1000;
  std::unique_ptr<SqliteLearningStore> store_;
};

TEST_F(SqliteLearningStoreTest, AFileIsItsTenantsAlone) {
  const std::string bytes("a\0b", 3);
  const LearningFile file = AddFile("a", bytes);
  EXPECT_EQ(*store_->FindFile("a", file.id), file);
  EXPECT_EQ(*store_->FileContent("a", file.id), bytes);
  EXPECT_EQ(store_->FindFile("b", file.id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->FileContent("b", file.id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->DeleteFile("b", file.id).code(), StatusCode::kNotFound);
  EXPECT_TRUE(store_->ListFiles("b", "", {})->items.empty());
  EXPECT_TRUE(store_->DeleteFile("a", file.id).ok());
  EXPECT_EQ(store_->FileContent("a", file.id).status().code(), StatusCode::kNotFound);
}

TEST_F(SqliteLearningStoreTest, AQuotaIsATenantsAndDeletingMakesRoom) {
  const LearningFile file = AddFile("a", std::string(60, 'x'));
  LearningFile second = file;
  second.id = "second";
  EXPECT_EQ(store_->AddFile(second, std::string(60, 'x'), 100).code(),
            StatusCode::kResourceExhausted);
  AddFile("b", std::string(100, 'x'));
  EXPECT_TRUE(store_->DeleteFile("a", file.id).ok());
  EXPECT_TRUE(store_->AddFile(second, std::string(60, 'x'), 100).ok());
}

TEST_F(SqliteLearningStoreTest, AFileGoesWithItsTimeUnlessAJobNeedsIt) {
  const LearningFile unused = AddFile("a", "x", 1010);
  const LearningFile used = AddFile("a", "y", 1010);
  const LearningJob job = AddJob("a", used.id);
  EXPECT_EQ(store_->DeleteFile("a", used.id).code(), StatusCode::kFailedPrecondition);
  now_ = 1010;
  EXPECT_EQ(store_->FindFile("a", unused.id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(*store_->FileContent("a", used.id), "y");
  Finish(job, JobStatus::kSucceeded);
  EXPECT_EQ(store_->FindFile("a", used.id).status().code(), StatusCode::kNotFound);
}

TEST_F(SqliteLearningStoreTest, WhatAnAdapterIsToLeaveAloneIsNeeded) {
  const LearningFile document = AddFile("a", "x"), first = AddFile("a", "y", 1010),
                     second = AddFile("a", "z");
  const LearningJob job = AddJob("a", document.id, {first.id, second.id});
  EXPECT_EQ(store_->FindJob("a", job.id)->method.keep_text, job.method.keep_text);
  EXPECT_EQ(store_->DeleteFile("a", second.id).code(), StatusCode::kFailedPrecondition);
  now_ = 1010;
  EXPECT_EQ(*store_->FileContent("a", first.id), "y");
  LearningJob more = job;
  more.id = "ftjob-more";
  more.method.keep_text = {"file-none"};
  EXPECT_EQ(store_->AddJob(more, {9, 9}).code(), StatusCode::kNotFound);
  more.method.keep_text = {AddFile("b", "y").id};
  EXPECT_EQ(store_->AddJob(more, {9, 9}).code(), StatusCode::kNotFound);
  Finish(job, JobStatus::kSucceeded);
  EXPECT_EQ(store_->FindFile("a", first.id).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(store_->DeleteFile("a", second.id).ok());
}

TEST_F(SqliteLearningStoreTest, ListsComeInPages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(AddFile("a", "x").id);
  const Page<LearningFile> newest = *store_->ListFiles("a", "", {.limit = 2});
  EXPECT_EQ(newest.items[0].id, ids[4]);
  EXPECT_TRUE(newest.has_more);
  const Page<LearningFile> rest =
      *store_->ListFiles("a", "fine-tune", {.after = newest.items[1].id, .limit = 3});
  EXPECT_EQ(rest.items.size(), 3U);
  EXPECT_FALSE(rest.has_more);
  EXPECT_EQ(store_->ListFiles("a", "", {.limit = 1, .is_ascending = true})->items[0].id, ids[0]);
  EXPECT_TRUE(store_->ListFiles("a", "user_data", {})->items.empty());
  EXPECT_EQ(store_->ListFiles("a", "", {.after = "file-x"}).status().code(), StatusCode::kNotFound);
}

TEST_F(SqliteLearningStoreTest, AJobIsReadAsItWasWritten) {
  const LearningFile file = AddFile("a", "x");
  LearningJob job = AddJob("a", file.id);
  EXPECT_EQ(*store_->FindJob("a", job.id), job);
  job.status = JobStatus::kFailed;
  job.started_at = 1001;
  job.finished_at = 1002;
  job.trained_tokens = int64_t{5} << 33;
  job.error = {"out_of_memory", "of nothing", "file"};
  job.hash = "h";
  job.rank_max = 4;
  job.num_virtual_tokens = 5;
  job.bytes = 9;
  job.base_hash = "b";
  EXPECT_TRUE(store_->Update(job).ok());
  EXPECT_EQ(*store_->FindJob("a", job.id), job);
  EXPECT_EQ(store_->FindJob("b", job.id).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(store_->ListJobs("b", {})->items.empty());
  EXPECT_EQ(store_->Cancel("b", job.id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->ListEvents("b", job.id, {}).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->ListCheckpoints("b", job.id, {}).status().code(), StatusCode::kNotFound);
}

TEST_F(SqliteLearningStoreTest, LimitsOfATenantsJobsAreItsOwn) {
  const LearningFile of_a = AddFile("a", "x");
  const LearningFile of_b = AddFile("b", "x");
  LearningJob job = AddJob("a", of_a.id);
  AddJob("a", of_a.id);
  AddJob("a", of_a.id);
  LearningJob more = job;
  more.id = "more";
  EXPECT_EQ(store_->AddJob(more, {3, 9}).code(), StatusCode::kResourceExhausted);
  AddJob("b", of_b.id);
  more.training_file = of_b.id;
  EXPECT_EQ(store_->AddJob(more, {9, 9}).code(), StatusCode::kNotFound) << "it is another's";
  more.training_file = of_a.id;
  Finish(job, JobStatus::kSucceeded, "ft:x");
  EXPECT_EQ(store_->AddJob(more, {9, 3}).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(store_->FindLearned("a", "ft:x")->id, job.id);
  EXPECT_EQ(store_->FindLearned("b", "ft:x").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store_->ListLearned()->size(), 1U);
  EXPECT_TRUE(store_->ForgetAdapter(job).ok());
  EXPECT_TRUE(store_->ListLearned()->empty());
  EXPECT_TRUE(store_->AddJob(more, {9, 3}).ok());
}

TEST_F(SqliteLearningStoreTest, FilesAndModelsHaveABoundBesideTheirNumberOfBytes) {
  for (size_t i = 0; i < kTenantFilesMax; ++i) AddFile("a", "");
  const LearningFile more = {.id = "more", .tenant = "a"};
  const Status full = store_->AddFile(more, "", 100);
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(full.message().find("1000 files"), std::string::npos) << full.message();
  const LearningFile of_b = AddFile("b", "x");
  LearningJob job = AddJob("b", of_b.id);
  job.bytes = 70;
  Finish(job, JobStatus::kSucceeded, "ft:x");
  LearningJob next = job;
  next.id = "next";
  EXPECT_EQ(store_->AddJob(next, {9, 9, 70}).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(store_->AddJob(next, {9, 9, 71}).ok());
}

// One tenant's jobs, many or long, do not hold up another's: a tenant that had a turn comes last,
// and goes on with its begun job.
TEST_F(SqliteLearningStoreTest, TenantsTakeTurnsAndABegunJobIsTheFirstOfItsTenant) {
  const LearningFile of_a = AddFile("a", "x");
  const LearningFile of_b = AddFile("b", "x");
  EXPECT_EQ(NextId(), "");
  const LearningJob waiting = AddJob("a", of_a.id);
  LearningJob first = AddJob("a", of_a.id);
  first.status = JobStatus::kRunning;
  first.started_at = ++now_;
  EXPECT_TRUE(store_->Update(first).ok());
  EXPECT_EQ(NextId(), first.id);
  EXPECT_FALSE(*store_->OthersWait(first)) << "its own tenant's waits in vain";
  const LearningJob other = AddJob("b", of_b.id);
  EXPECT_TRUE(*store_->OthersWait(first));
  EXPECT_EQ(NextId(), other.id);
  EXPECT_EQ(NextId(), first.id);
  EXPECT_EQ(NextId(), other.id);
  Finish(other, JobStatus::kFailed);
  EXPECT_FALSE(*store_->OthersWait(first));
  Finish(first, JobStatus::kSucceeded);
  EXPECT_EQ(NextId(), waiting.id);
}

// What ends its server is begun again and has no end: begins are counted before the work.
TEST_F(SqliteLearningStoreTest, BeginsWithoutAnEndAreCounted) {
  const LearningJob job = AddJob("a", AddFile("a", "x").id);
  EXPECT_EQ((*store_->NextJob())->begins, 1);
  EXPECT_EQ((*store_->NextJob())->begins, 2);
  LearningJob begun = **store_->NextJob();
  EXPECT_EQ(begun.begins, 3);
  store_->Leave(begun, /*is_fault=*/false);
  begun = **store_->NextJob();
  EXPECT_EQ(begun.begins, 3) << "a server that ends by itself leaves no mark";
  store_->Leave(begun, /*is_fault=*/true);
  EXPECT_EQ((*store_->NextJob())->begins, 4);
  EXPECT_TRUE(store_->GotOn(job.id).ok());
  EXPECT_EQ((*store_->NextJob())->begins, 2) << "it ended one server since";
}

TEST_F(SqliteLearningStoreTest, AnOperatorFindsAJobsTenant) {
  const LearningJob job = AddJob("a", AddFile("a", "x").id);
  EXPECT_EQ(*store_->TenantOf(job.id), "a");
  EXPECT_EQ(store_->TenantOf("ftjob-none").status().code(), StatusCode::kNotFound);
  Finish(job, JobStatus::kFailed);
  EXPECT_EQ(store_->TenantOf(job.id).status().code(), StatusCode::kNotFound);
}

TEST_F(SqliteLearningStoreTest, CancellingEndsAJobThatWaitsAndMarksOneThatRuns) {
  const LearningFile file = AddFile("a", "x");
  const LearningJob waiting = AddJob("a", file.id);
  EXPECT_EQ(store_->Cancel("a", waiting.id)->status, JobStatus::kCancelled);
  EXPECT_EQ(store_->Cancel("a", waiting.id).status().code(), StatusCode::kFailedPrecondition);
  LearningJob running = AddJob("a", file.id);
  running.status = JobStatus::kRunning;
  running.started_at = now_;
  EXPECT_TRUE(store_->Update(running).ok());
  EXPECT_FALSE(*store_->IsCancelled(running.id));
  EXPECT_EQ(store_->Cancel("a", running.id)->status, JobStatus::kRunning);
  EXPECT_TRUE(*store_->IsCancelled(running.id));
  // What the thread that learns writes meanwhile does not undo it.
  EXPECT_TRUE(store_->Update(running).ok());
  EXPECT_TRUE(*store_->IsCancelled(running.id));
}

TEST_F(SqliteLearningStoreTest, EventsAndCheckpointsAreListedNewestFirst) {
  const LearningFile file = AddFile("a", "x");
  const LearningJob job = AddJob("a", file.id);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(store_->AddEvent(job.id, {.message = std::to_string(i), .data = "{}"}).ok());
  }
  const Page<JobEvent> events = *store_->ListEvents("a", job.id, {.limit = 3});
  EXPECT_EQ(events.items[0].message, "2");
  EXPECT_TRUE(events.has_more);
  const std::string last = EventId(job.id, events.items[2].number);
  const Page<JobEvent> rest = *store_->ListEvents("a", job.id, {.after = last});
  ASSERT_EQ(rest.items.size(), 1U);
  EXPECT_EQ(rest.items[0].message, "Created fine-tuning job: " + job.id);
  for (int64_t step = 1; step <= 120; ++step) {
    EXPECT_TRUE(store_->AddCheckpoint(job.id, {.step = step, .loss = 0.5}).ok());
  }
  const Page<JobCheckpoint> checkpoints = *store_->ListCheckpoints("a", job.id, {.limit = 200});
  EXPECT_EQ(checkpoints.items.size(), 100U);
  EXPECT_EQ(checkpoints.items[0].step, 120);
}

TEST_F(SqliteLearningStoreTest, AnOperatorSeesAllTenantsJobsThoseThatAreNotFinishedFirst) {
  const std::string a = AddFile("a", "x").id, b = AddFile("b", "y").id;
  const LearningJob first = AddJob("a", a), second = AddJob("b", b), third = AddJob("a", a),
                    fourth = AddJob("b", b);
  Finish(second, JobStatus::kFailed);
  Finish(fourth, JobStatus::kSucceeded, "learned");
  EXPECT_TRUE(store_->AddEvent(first.id, {.message = "a step", .data = R"({"step":1})"}).ok());
  EXPECT_TRUE(store_->AddEvent(first.id, {.message = "a step", .data = R"({"step":2})"}).ok());
  EXPECT_TRUE(store_->AddEvent(first.id, {.message = "no step"}).ok());
  const JobsOverview all = *store_->Overview(10);
  EXPECT_EQ(all.counts[static_cast<size_t>(JobStatus::kQueued)], 2);
  EXPECT_EQ(all.counts[static_cast<size_t>(JobStatus::kFailed)], 1);
  EXPECT_EQ(all.counts[static_cast<size_t>(JobStatus::kSucceeded)], 1);
  EXPECT_EQ(all.counts[static_cast<size_t>(JobStatus::kRunning)], 0);
  std::vector<std::string> ids;
  for (const JobsOverview::Row& row : all.rows) ids.push_back(row.job.id);
  EXPECT_EQ(ids, (std::vector{third.id, first.id, fourth.id, second.id}));
  EXPECT_EQ(all.rows[1].progress, R"({"step":2})");
  EXPECT_EQ(all.rows[0].progress, "");
  EXPECT_EQ(all.rows[2].job.adapter, "learned");
  EXPECT_EQ(store_->Overview(3)->rows.size(), 3U);
  EXPECT_EQ(store_->Overview(1)->rows.size(), 1U);
}

TEST(LearningStoreFileTest, AKilledProcessLeavesWhatItWrote) {
  const fs::path folder =
      fs::temp_directory_path() / ("graft_learning_" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string path = folder / "learning.db";
  const pid_t child = fork();
  if (child == 0) {
    auto store = SqliteLearningStore::Open(path);
    const LearningFile file = {
        .id = "f", .tenant = "t", .name = "n", .purpose = "p", .bytes = 4, .created_at = 1};
    LearningJob job = {.id = "j", .tenant = "t", .training_file = "f"};
    if (!store.ok() || !(*store)->AddFile(file, "text", 10).ok()) _exit(1);
    if (!(*store)->AddJob(job, {1, 1}).ok()) _exit(1);
    job.status = JobStatus::kRunning;
    job.started_at = 5;
    if (!(*store)->Update(job).ok()) _exit(1);
    kill(getpid(), SIGKILL);
  }
  int state = 0;
  waitpid(child, &state, 0);
  ASSERT_TRUE(WIFSIGNALED(state));
  // Whatever the umask, and whatever an older version left.
  int num_left = 0;
  for (const auto& file : fs::directory_iterator(folder)) {
    ASSERT_EQ(chmod(file.path().c_str(), 0644), 0);
    ++num_left;
  }
  EXPECT_EQ(num_left, 3) << "the database, and what SQLite had beside it";
  const auto store = *SqliteLearningStore::Open(path);
  for (const auto& file : fs::directory_iterator(folder)) {
    EXPECT_EQ(file.status().permissions(), fs::perms::owner_read | fs::perms::owner_write)
        << file.path();
  }
  EXPECT_EQ((*store->NextJob())->id, "j");
  EXPECT_EQ((*store->NextJob())->status, JobStatus::kRunning);
  EXPECT_EQ(*store->FileContent("t", "f"), "text");
  fs::remove_all(folder);
}

// The word that asks for hidden states is kept, so that the job fails by name.
TEST(SqliteLearningStoreFileTest, AnOldDatabaseIsRead) {
  const std::string folder = fs::temp_directory_path() / ("graft_old_" + std::to_string(getpid()));
  fs::create_directories(folder);
  const std::string path = folder + "/learning.db";
  WriteOldLearningDatabase(path, "text");
  for (int opens = 0; opens < 2; ++opens) {
    const auto store = *SqliteLearningStore::Open(path);
    EXPECT_EQ(*store->FindFile("t", "file-old"), (LearningFile{.id = "file-old",
                                                               .tenant = "t",
                                                               .name = "a.txt",
                                                               .purpose = "fine-tune",
                                                               .bytes = 4,
                                                               .created_at = 900}));
    EXPECT_EQ(*store->FileContent("t", "file-old"), "text");
    const Page<LearningJob> jobs = *store->ListJobs("t", {});
    ASSERT_EQ(jobs.items.size(), 3U);
    const LearningJob &plain = jobs.items[0], &hidden = jobs.items[1], &done = jobs.items[2];
    const DocumentMethod method = {.learner = "next-token",
                                   .passes = 4,
                                   .batch = 2,
                                   .learning_rate_factor = 10.0,
                                   .rank = 4,
                                   .window_tokens = 24};
    EXPECT_EQ(plain.id, "ftjob-plain");
    EXPECT_EQ(plain.method, method);
    EXPECT_EQ(hidden.method.learner, "distill");
    EXPECT_EQ(hidden.method.hidden_states, "all");
    LearningJob expected = {.id = "ftjob-done",
                            .tenant = "t",
                            .base_model = "base",
                            .training_file = "file-old",
                            .seed = 7,
                            .method = method,
                            .created_at = 900,
                            .status = JobStatus::kSucceeded,
                            .started_at = 901,
                            .finished_at = 950,
                            .trained_tokens = 1234,
                            .adapter = "ft:base:ftjob-done",
                            .hash = "a hash",
                            .rank_max = 4,
                            .bytes = 5678,
                            .base_hash = "another base"};
    expected.method.learner = "distill";
    expected.method.hidden_states = "last";
    EXPECT_EQ(done, expected);
    EXPECT_EQ(store->ListEvents("t", "ftjob-done", {})->items[0].message,
              "Created fine-tuning job: ftjob-done");
    EXPECT_EQ(store->ListCheckpoints("t", "ftjob-done", {})->items[0].loss, 0.5);
    const LearningJob next = **store->NextJob();
    EXPECT_EQ(next.id, "ftjob-hidden");
    EXPECT_EQ(next.method, hidden.method);
    EXPECT_TRUE(store->Update(next).ok());
  }
  fs::remove_all(folder);
}

TEST(LearningRecordsTest, AMethodGoesToJsonAndBack) {
  const DocumentMethod method = {.learner = "distill",
                                 .passes = 5,
                                 .batch = 6,
                                 .learning_rate_factor = 0.25,
                                 .rank = 7,
                                 .virtual_tokens = 8,
                                 .alpha = 3.5,
                                 .window_tokens = 99,
                                 .held_out_share = 0.125,
                                 .questions = 7,
                                 .outputs = 1,
                                 .output_tokens = 11,
                                 .keep = 12,
                                 .keep_weight = 0.5,
                                 .keep_text = {"file-1", "file-2"},
                                 .prompts = "chat"};
  EXPECT_EQ(DocumentMethodOf(ToJson(method)), method);
  EXPECT_EQ(ToJson(method).find("hidden_states"), std::string::npos);
  const DocumentMethod old = DocumentMethodOf(OldMethod("distill", "last"));
  EXPECT_EQ(old.hidden_states, "last");
  EXPECT_EQ(old.keep_weight, DocumentMethod().keep_weight);
  EXPECT_EQ(DocumentMethodOf(ToJson(old)), old);
  EXPECT_EQ(DocumentMethodOf("no json"), DocumentMethod());
  for (const JobStatus status :
       {JobStatus::kQueued, JobStatus::kValidating, JobStatus::kRunning, JobStatus::kSucceeded,
        JobStatus::kFailed, JobStatus::kCancelled}) {
    EXPECT_EQ(JobStatusOf(JobStatusName(status)), status);
  }
}

}  // namespace
}  // namespace graft
