// Files and jobs in a real etcd, with runners that come and go.
#include "cluster/etcd_learning_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cluster/cluster_keys.h"
#include "cluster/etcd_registry.h"
#include "etcd/etcd_testing.h"
#include "jobs/old_learning_testing.h"

namespace graft {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr size_t kKept = 4;

class EtcdLearningStoreTest : public testing::Test {
 protected:
  EtcdLearningStoreTest() {
    EXPECT_TRUE(ClusterStore::Init(*client_, "base", "test").ok());
    cluster_ = *ClusterStore::Open(*client_);
    const std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
    folder_ = fs::temp_directory_path() / ("graft_learn_" + std::to_string(getpid()) + name);
    frontend_ = Open("frontend");
  }
  ~EtcdLearningStoreTest() override { fs::remove_all(folder_); }

  std::unique_ptr<EtcdLearningStore> Open(const std::string& by, int64_t lease = 0) {
    auto store = EtcdLearningStore::Open(*cluster_, {.folder = folder_,
                                                     .by = by,
                                                     .lease_id = [lease] { return lease; },
                                                     .unix_seconds = [this] { return now_; },
                                                     .jobs_kept = kKept,
                                                     .checkpoints_kept = kKept,
                                                     .jobs_whole = 2,
                                                     .grace = std::chrono::seconds(0),
                                                     .sweep = std::chrono::seconds(0)});
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return std::move(*store);
  }
  int64_t Lease() { return client_->GrantLease(60)->id; }

  LearningFile AddFile(const std::string& tenant, const std::string& content,
                       int64_t expires_at = 0) {
    LearningFile file = {.id = NewLearningId("file-"),
                         .tenant = tenant,
                         .name = "a.txt",
                         .purpose = "fine-tune",
                         .bytes = static_cast<int64_t>(content.size()),
                         .created_at = now_,
                         .expires_at = expires_at};
    const Status added = frontend_->AddFile(file, content, 100);
    EXPECT_TRUE(added.ok()) << added.ToString();
    return file;
  }
  LearningJob AddJob(const std::string& tenant, const std::string& file) {
    LearningJob job = {.id = NewLearningId("ftjob-"),
                       .tenant = tenant,
                       .base_model = "base",
                       .training_file = file,
                       .seed = 7};
    job.method.learner = "next-token";
    job.created_at = now_;
    const Status added = frontend_->AddJob(job, {3, 4});
    EXPECT_TRUE(added.ok()) << added.ToString();
    return job;
  }
  LearningJob Claim(EtcdLearningStore& runner) {
    const auto job = runner.NextJob();
    EXPECT_TRUE(job.ok() && job->has_value()) << job.status().ToString();
    return job.ok() && job->has_value() ? **job : LearningJob();
  }
  bool FindsNothing(EtcdLearningStore& runner) {
    const auto job = runner.NextJob();
    return job.ok() && !job->has_value();
  }
  std::vector<std::string> Messages(const LearningJob& job) {
    std::vector<std::string> messages;
    const auto events = frontend_->ListEvents(job.tenant, job.id, {});
    EXPECT_TRUE(events.ok()) << events.status().ToString();
    for (const JobEvent& event : events->items) {
      messages.push_back(event.message);
    }
    return messages;
  }
  // As a runner that has learned it.
  void Succeed(EtcdLearningStore& runner, LearningJob job) {
    job.status = JobStatus::kSucceeded;
    job.adapter = "ft:base:" + job.id;
    job.hash = "hash of " + job.id;
    fs::create_directories(folder_ + "/adapters/" + job.folder);
    EXPECT_TRUE(runner.Finish(job, {.message = "done"}).ok());
  }

  int64_t now_ = 1000;
  TestEtcd etcd_;
  std::unique_ptr<EtcdClient> client_ = etcd_.Client();
  std::unique_ptr<ClusterStore> cluster_;
  std::string folder_;
  std::unique_ptr<EtcdLearningStore> frontend_;
};

TEST_F(EtcdLearningStoreTest, AFileIsItsTenantsAloneAtEveryFrontend) {
  const auto other = Open("other frontend");
  const std::string bytes("a\0b", 3);
  const LearningFile file = AddFile("a/b", bytes);
  EXPECT_EQ(*other->FindFile("a/b", file.id), file);
  EXPECT_EQ(*other->FileContent("a/b", file.id), bytes);
  for (const char* const tenant : {"a", "", "a/b/"}) {
    EXPECT_EQ(other->FindFile(tenant, file.id).status().code(), StatusCode::kNotFound);
    EXPECT_EQ(other->FileContent(tenant, file.id).status().code(), StatusCode::kNotFound);
    EXPECT_EQ(other->DeleteFile(tenant, file.id).code(), StatusCode::kNotFound);
    EXPECT_TRUE(other->ListFiles(tenant, "", {})->items.empty());
  }
  EXPECT_EQ(frontend_->AddFile({.id = "file-2", .tenant = "a/b", .bytes = 98}, "", 100).code(),
            StatusCode::kResourceExhausted);
  EXPECT_TRUE(other->DeleteFile("a/b", file.id).ok());
  EXPECT_EQ(frontend_->FileContent("a/b", file.id).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(fs::is_empty(folder_ + "/files"));
}

TEST_F(EtcdLearningStoreTest, AFileGoesWithItsTimeUnlessAJobNeedsIt) {
  const LearningFile unused = AddFile("a", "x", 1010), used = AddFile("a", "y", 1010);
  const LearningJob job = AddJob("a", used.id);
  EXPECT_EQ(frontend_->DeleteFile("a", used.id).code(), StatusCode::kFailedPrecondition);
  now_ = 1010;
  EXPECT_EQ(frontend_->FindFile("a", unused.id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(*frontend_->FileContent("a", used.id), "y");
  EXPECT_EQ(frontend_->ListFiles("a", "", {})->items, std::vector<LearningFile>{used});
  EXPECT_EQ(frontend_->Cancel("a", job.id)->status, JobStatus::kCancelled);
  EXPECT_EQ(frontend_->FindFile("a", used.id).status().code(), StatusCode::kNotFound);
  // A runner that learns removes them from the folder, too.
  const auto runner = Open("runner", Lease());
  EXPECT_TRUE(FindsNothing(*runner));
  EXPECT_TRUE(FindsNothing(*runner));
  EXPECT_TRUE(fs::is_empty(folder_ + "/files"));
}

TEST_F(EtcdLearningStoreTest, WhatAnAdapterIsToLeaveAloneIsNeeded) {
  const LearningFile document = AddFile("a", "x"), kept = AddFile("a", "y", 1010);
  LearningJob job = {.id = "ftjob-1", .tenant = "a", .training_file = document.id};
  job.method.keep_text = {"file-none"};
  EXPECT_EQ(frontend_->AddJob(job, {3, 4}).code(), StatusCode::kNotFound);
  job.method.keep_text = {kept.id};
  EXPECT_TRUE(frontend_->AddJob(job, {3, 4}).ok());
  EXPECT_EQ(frontend_->DeleteFile("a", kept.id).code(), StatusCode::kFailedPrecondition);
  now_ = 1010;
  EXPECT_EQ(*frontend_->FileContent("a", kept.id), "y");
  EXPECT_EQ(Claim(*Open("runner", Lease())).method.keep_text, job.method.keep_text);
}

TEST_F(EtcdLearningStoreTest, ListsComeInPages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(AddFile("a", "x").id);
  const Page<LearningFile> newest = *frontend_->ListFiles("a", "", {.limit = 2});
  EXPECT_EQ(newest.items[0].id, ids[4]);
  EXPECT_TRUE(newest.has_more);
  const auto rest = *frontend_->ListFiles("a", "fine-tune", {.after = ids[3], .limit = 3});
  EXPECT_EQ(rest.items.size(), 3U);
  EXPECT_FALSE(rest.has_more);
  const auto oldest = *frontend_->ListFiles("a", "", {.limit = 1, .is_ascending = true});
  EXPECT_EQ(oldest.items[0].id, ids[0]);
  EXPECT_EQ(frontend_->ListFiles("a", "", {.after = "x"}).status().code(), StatusCode::kNotFound);
  const LearningJob first = AddJob("a", ids[0]), second = AddJob("a", ids[0]);
  EXPECT_EQ(frontend_->ListJobs("a", {.limit = 1})->items[0].id, second.id);
  EXPECT_EQ(frontend_->ListJobs("a", {.after = second.id})->items[0].id, first.id);
}

TEST_F(EtcdLearningStoreTest, LimitsHoldForTheCluster) {
  const LearningFile file = AddFile("a", "x");
  for (int i = 0; i < 3; ++i) AddJob("a", file.id);
  const auto other = Open("other frontend");
  const LearningJob more = {.id = "ftjob-more", .tenant = "a", .training_file = file.id};
  EXPECT_THAT(other->AddJob(more, {3, 10}).message(), HasSubstr("3 fine-tuning jobs"));
  EXPECT_THAT(other->AddJob(more, {10, 3}).message(), HasSubstr("a tenant may have 3"));
  const LearningJob none = {.id = "ftjob-more", .tenant = "a", .training_file = "file-none"};
  EXPECT_EQ(other->AddJob(none, {10, 10}).code(), StatusCode::kNotFound);
  EXPECT_EQ(frontend_->Overview(2)->counts[0], 3);
  EXPECT_EQ(frontend_->Overview(2)->rows.size(), 2U);
}

TEST_F(EtcdLearningStoreTest, AJobIsOneRunnersUntilItsLeaseEnds) {
  const LearningJob job = AddJob("a", AddFile("a", "x").id);
  const int64_t lease = Lease();
  const auto first = Open("first", lease), second = Open("second", Lease());
  LearningJob mine = Claim(*first);
  EXPECT_EQ(mine.id, job.id);
  EXPECT_EQ(mine.checkpoint, "");
  EXPECT_TRUE(FindsNothing(*second));
  mine.status = JobStatus::kRunning;
  EXPECT_TRUE(first->Update(mine).ok());
  EXPECT_TRUE(first->AddEvent(job.id, {.message = "step", .data = R"({"step":3})"}).ok());
  EXPECT_TRUE(first->AddCheckpoint(job.id, {.step = 3, .loss = 0.5}).ok());
  EXPECT_EQ(frontend_->Overview(1)->rows[0].progress, R"({"step":3})");
  // Asked again, as after etcd was away, it has the job still.
  EXPECT_EQ(Claim(*first).folder, mine.folder);

  ASSERT_TRUE(client_->RevokeLease(lease).ok());
  LearningJob theirs = Claim(*second);
  EXPECT_EQ(theirs.id, job.id);
  EXPECT_EQ(theirs.status, JobStatus::kRunning);
  EXPECT_EQ(theirs.checkpoint, mine.folder) << "it goes on from there";
  EXPECT_NE(theirs.folder, mine.folder) << "whoever was only stopped writes elsewhere";
  // The first one goes on without knowing, and changes nothing.
  mine.status = JobStatus::kSucceeded;
  mine.adapter = "ft:base:stale";
  EXPECT_EQ(first->Update(mine).code(), StatusCode::kAborted);
  EXPECT_EQ(first->AddEvent(job.id, {.message = "stale"}).code(), StatusCode::kAborted);
  EXPECT_EQ(first->AddCheckpoint(job.id, {.step = 4}).code(), StatusCode::kAborted);
  EXPECT_EQ(first->Finish(mine, {.message = "stale"}).code(), StatusCode::kAborted);
  EXPECT_EQ(first->IsCancelled(job.id).status().code(), StatusCode::kAborted);
  EXPECT_TRUE(second->AddEvent(job.id, {.message = "went on"}).ok());
  Succeed(*second, theirs);
  EXPECT_EQ(Messages(job), (std::vector<std::string>{"done", "went on", "step",
                                                     "Created fine-tuning job: " + job.id}));
  EXPECT_EQ(frontend_->ListCheckpoints("a", job.id, {})->items.size(), 1U);
  EXPECT_TRUE(FindsNothing(*second));
  EXPECT_TRUE(frontend_->Overview(1)->rows.empty());
}

TEST_F(EtcdLearningStoreTest, TheEndOfAJobRegistersItsAdapterForItsTenant) {
  const LearningJob job = AddJob("a", AddFile("a", "x").id);
  const auto runner = Open("runner", Lease());
  Succeed(*runner, Claim(*runner));
  const std::string name = "ft:base:" + job.id;
  EtcdRegistry registry(*cluster_, "test");
  const std::vector<AdapterInfo> entries = *registry.List();
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].name, name);
  EXPECT_EQ(entries[0].owner, "a");
  EXPECT_EQ(frontend_->FindLearned("b", name).status().code(), StatusCode::kNotFound);
  const LearningJob learned = *frontend_->FindLearned("a", name);
  EXPECT_EQ(learned.id, job.id);
  // Its folder stays as long as the registry has the name.
  EXPECT_TRUE(FindsNothing(*runner));
  EXPECT_TRUE(fs::exists(folder_ + "/adapters/" + learned.folder));
  EXPECT_TRUE(frontend_->ForgetAdapter(learned).ok());
  EXPECT_EQ(frontend_->FindJob("a", job.id)->adapter, "");
  EXPECT_EQ(frontend_->FindLearned("a", name)->id, "") << "known by the registry alone";
  EXPECT_TRUE(registry.Remove(name).ok());
  EXPECT_EQ(frontend_->FindLearned("a", name).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(FindsNothing(*runner));
  EXPECT_FALSE(fs::exists(folder_ + "/adapters/" + learned.folder));
}

TEST_F(EtcdLearningStoreTest, CancellingEndsAJobThatNobodyHasAtOnce) {
  const LearningFile file = AddFile("a", "x");
  const LearningJob waiting = AddJob("a", file.id);
  EXPECT_EQ(frontend_->Cancel("b", waiting.id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(frontend_->Cancel("a", waiting.id)->status, JobStatus::kCancelled);
  EXPECT_EQ(frontend_->Cancel("a", waiting.id).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(Messages(waiting)[0], "Cancelled before it began");
  const auto runner = Open("runner", Lease());
  EXPECT_TRUE(FindsNothing(*runner));

  const LearningJob job = AddJob("a", file.id);
  LearningJob mine = Claim(*runner);
  EXPECT_FALSE(*runner->IsCancelled(job.id));
  EXPECT_EQ(frontend_->Cancel("a", job.id)->status, JobStatus::kQueued);
  EXPECT_TRUE(frontend_->FindJob("a", job.id)->is_cancelled);
  EXPECT_TRUE(Eventually([&] { return *runner->IsCancelled(job.id); }));
  // If its runner goes away first, the next one hears of the cancellation, too.
  runner->Leave(mine, false);
  mine = Claim(*runner);
  EXPECT_TRUE(*runner->IsCancelled(job.id));
  runner->Leave(mine, false);
  EXPECT_EQ(frontend_->Cancel("a", job.id)->status, JobStatus::kCancelled);
  EXPECT_TRUE(FindsNothing(*runner));
}

TEST_F(EtcdLearningStoreTest, TenantsTakeTurnsAndABegunJobIsTheFirstOfItsTenant) {
  const LearningFile a = AddFile("a", "x"), b = AddFile("b", "x");
  const LearningJob a1 = AddJob("a", a.id), a2 = AddJob("a", a.id);
  const auto runner = Open("runner", Lease()), second = Open("second", Lease());
  LearningJob job = Claim(*runner);
  EXPECT_EQ(job.id, a1.id);
  EXPECT_FALSE(*runner->OthersWait(job)) << "its own tenant's waits in vain";
  const LearningJob b1 = AddJob("b", b.id);
  EXPECT_TRUE(*runner->OthersWait(job));
  LearningJob other = Claim(*second);
  EXPECT_EQ(other.id, b1.id);
  EXPECT_FALSE(*runner->OthersWait(job)) << "it runs elsewhere";
  second->Leave(other, false);
  runner->Leave(job, false);
  job = Claim(*runner);
  EXPECT_EQ(job.id, a1.id) << "it was begun, and b's turn was later";
  runner->Leave(job, false);
  other = Claim(*runner);
  EXPECT_EQ(other.id, b1.id);
  Succeed(*runner, other);
  job = Claim(*runner);
  EXPECT_EQ(job.id, a1.id);
  Succeed(*runner, job);
  EXPECT_EQ(Claim(*runner).id, a2.id);
}

// What ends its runner is begun by another and has no end: begins are counted with the claim.
TEST_F(EtcdLearningStoreTest, BeginsWithoutAnEndAreCounted) {
  const LearningJob job = AddJob("a", AddFile("a", "x").id);
  for (int32_t begins = 1; begins <= 2; ++begins) {
    const int64_t lease = Lease();
    const auto runner = Open("runner", lease);
    EXPECT_EQ(Claim(*runner).begins, begins);
    EXPECT_EQ(Claim(*runner).begins, begins) << "it has the job still";
    ASSERT_TRUE(client_->RevokeLease(lease).ok());
  }
  const int64_t lease = Lease();
  const auto third = Open("third", lease), fourth = Open("fourth", Lease());
  LearningJob begun = Claim(*third);
  EXPECT_EQ(begun.begins, 3);
  third->Leave(begun, /*is_fault=*/false);
  begun = Claim(*third);
  EXPECT_EQ(begun.begins, 3) << "a runner that ends by itself leaves no mark";
  // One that was only cut off from etcd lives, and says so once it is back.
  ASSERT_TRUE(client_->RevokeLease(lease).ok());
  LearningJob theirs = Claim(*fourth);
  EXPECT_EQ(theirs.begins, 4);
  fourth->Leave(theirs, /*is_fault=*/true);
  third->Leave(begun, /*is_fault=*/false);
  EXPECT_EQ(Claim(*fourth).begins, 4) << "of the two one was a fault";
}

TEST_F(EtcdLearningStoreTest, AJobThatGotOnCountsAnew) {
  const LearningJob job = AddJob("a", AddFile("a", "x").id);
  const auto first = Open("first", Lease());
  LearningJob begun = Claim(*first);
  first->Leave(begun, /*is_fault=*/true);
  begun = Claim(*first);
  EXPECT_EQ(begun.begins, 2);
  EXPECT_TRUE(first->GotOn(job.id).ok());
  first->Leave(begun, /*is_fault=*/true);
  EXPECT_EQ(first->GotOn(job.id).code(), StatusCode::kAborted) << "it is nobody's";
  EXPECT_EQ(Claim(*first).begins, 2);
}

// Also where another runner has the job by then: what that one writes of it later counts on.
TEST_F(EtcdLearningStoreTest, ARunnerThatWasCutOffTakesItsBeginBack) {
  AddJob("a", AddFile("a", "x").id);
  const int64_t lease = Lease();
  const auto first = Open("first", lease), second = Open("second", Lease());
  const LearningJob mine = Claim(*first);
  ASSERT_TRUE(client_->RevokeLease(lease).ok());
  const LearningJob theirs = Claim(*second);
  EXPECT_EQ(theirs.begins, 2);
  first->Leave(mine, /*is_fault=*/false);
  second->Leave(theirs, /*is_fault=*/true);
  EXPECT_EQ(Claim(*second).begins, 2);
}

TEST_F(EtcdLearningStoreTest, AJobThatIsLeftWhileEtcdIsAwayIsLeftLater) {
  AddJob("a", AddFile("a", "x").id);
  const int64_t lease = Lease();
  const auto first = Open("first", lease), second = Open("second", Lease());
  LearningJob mine = Claim(*first);
  const auto leave_without_etcd = [&] {
    etcd_.Pause();
    first->Leave(mine, /*is_fault=*/false);
    etcd_.Resume();
    EXPECT_TRUE(Eventually([&] { return first->FindJob("a", mine.id).ok(); }));
  };
  leave_without_etcd();
  mine = Claim(*first);
  EXPECT_EQ(mine.begins, 1) << "its claim stands still";
  leave_without_etcd();
  ASSERT_TRUE(client_->RevokeLease(lease).ok());
  const LearningJob theirs = Claim(*second);
  EXPECT_EQ(theirs.begins, 2);
  EXPECT_FALSE(first->NextJob()->has_value());
  second->Leave(theirs, /*is_fault=*/true);
  EXPECT_EQ(Claim(*second).begins, 2);
}

// As an earlier commit wrote them, key by key. What the jobs ask for is kept when they are written
// again, also the word that has been removed.
TEST_F(EtcdLearningStoreTest, OldRecordsAreRead) {
  const auto put = [this](const std::string& key, const std::string& value) {
    const std::string under = "graft-learning/" + key;
    ASSERT_TRUE(client_->Commit({.then = {EtcdOperation::Put(under, value)}}).ok());
  };
  put("tenants/t", "");
  put("files/t/file-old",
      R"({"bytes":4,"created_at":900,"expires_at":0,"id":"file-old","name":"a.txt",)"
      R"("purpose":"fine-tune","tenant":"t"})");
  std::ofstream(folder_ + "/files/file-old") << "text";
  const std::pair<std::string, std::string> jobs[] = {{"ftjob-hidden", "all"},
                                                      {"ftjob-plain", "none"}};
  for (const auto& [id, word] : jobs) {
    put("jobs/t/" + id, OldEtcdJob(id, OldMethod("distill", word)));
    put("open/" + id, R"({"begun":false,"tenant":"t"})");
    put("events/t/" + id + "/0000000001",
        R"({"created_at":900,"data":"","level":"info","message":"Created","number":1})");
  }
  EXPECT_EQ(frontend_->FindFile("t", "file-old")->name, "a.txt");
  EXPECT_EQ(*frontend_->FileContent("t", "file-old"), "text");
  EXPECT_EQ(frontend_->ListJobs("t", {})->items.size(), 2U);
  const auto runner = Open("runner", Lease());
  for (const auto& [id, word] : jobs) {
    LearningJob mine = Claim(*runner);
    EXPECT_EQ(mine.id, id);
    EXPECT_EQ(mine.method.hidden_states, word);
    EXPECT_EQ(mine.method.passes, 4);
    EXPECT_EQ(mine.begins, 1);
    EXPECT_EQ(Messages(mine), std::vector<std::string>{"Created"});
    mine.status = JobStatus::kValidating;
    EXPECT_TRUE(runner->Update(mine).ok());
    EXPECT_EQ(frontend_->FindJob("t", id)->method, mine.method);
    mine.status = JobStatus::kFailed;
    mine.error = {"training_failed", "hidden_states was removed", ""};
    EXPECT_TRUE(runner->Finish(mine, {.level = "error", .message = "no"}).ok());
    EXPECT_EQ(frontend_->FindJob("t", id)->error, mine.error);
  }
}

TEST_F(EtcdLearningStoreTest, AnOperatorFindsAJobsTenant) {
  const LearningJob job = AddJob("a", AddFile("a", "x").id);
  EXPECT_EQ(*frontend_->TenantOf(job.id), "a");
  EXPECT_EQ(frontend_->TenantOf("ftjob-none").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(frontend_->Cancel("a", job.id).ok());
  EXPECT_EQ(frontend_->TenantOf(job.id).status().code(), StatusCode::kNotFound);
}

TEST_F(EtcdLearningStoreTest, AForgottenTenantsJobEndsByItself) {
  const LearningJob job = AddJob("a", AddFile("a", "x").id);
  const LearningFile other = AddFile("b", "y");
  const auto runner = Open("runner", Lease());
  const LearningJob mine = Claim(*runner);
  EXPECT_TRUE(EtcdRegistry(*cluster_, "test").ForgetTenant("a").ok());
  EXPECT_EQ(runner->Update(mine).code(), StatusCode::kAborted);
  runner->Leave(mine, false);
  EXPECT_TRUE(FindsNothing(*runner));
  EXPECT_EQ(frontend_->FindJob("a", job.id).status().code(), StatusCode::kNotFound);
  EXPECT_TRUE(frontend_->ListFiles("a", "", {})->items.empty());
  EXPECT_EQ(*frontend_->FileContent("b", other.id), "y");
  const auto left = client_->ReadPrefix("graft-learning/");
  ASSERT_TRUE(left.ok());
  for (const EtcdKeyValue& item : left->found[0]) {
    EXPECT_TRUE(item.key == LearningFolderKey() || item.key.find("/b") != std::string::npos)
        << item.key;
  }
}

TEST_F(EtcdLearningStoreTest, OldCheckpointsAndJobsAreForgotten) {
  const LearningFile file = AddFile("a", "x");
  const LearningJob job = AddJob("a", file.id);
  const auto runner = Open("runner", Lease());
  LearningJob mine = Claim(*runner);
  for (int64_t step = 1; step <= static_cast<int64_t>(kKept) + 2; ++step) {
    ASSERT_TRUE(runner->AddCheckpoint(job.id, {.step = step}).ok());
  }
  const auto kept = frontend_->ListCheckpoints("a", job.id, {.limit = 200});
  EXPECT_EQ(kept->items.size(), kKept);
  EXPECT_EQ(kept->items.back().step, 3);
  mine.status = JobStatus::kFailed;
  EXPECT_TRUE(runner->Finish(mine, {.level = "error", .message = "no"}).ok());
  for (size_t i = 0; i < kKept; ++i) {
    const LearningJob next = AddJob("a", file.id);
    ASSERT_TRUE(frontend_->Cancel("a", next.id).ok());
  }
  EXPECT_EQ(frontend_->FindJob("a", job.id).status().code(), StatusCode::kNotFound);
  const auto left = client_->ReadPrefix(JobCheckpointsKey("a", job.id));
  EXPECT_TRUE(left.ok() && left->found[0].empty());
  EXPECT_EQ(frontend_->ListJobs("a", {.limit = 1000})->items.size(), kKept);
}

TEST_F(EtcdLearningStoreTest, OfJobsThatEndedLongAgoTheEventsGo) {
  const LearningFile file = AddFile("a", "text");
  std::vector<LearningJob> jobs;
  for (size_t i = 0; i < kKept; ++i) {
    jobs.push_back(AddJob("a", file.id));
    ASSERT_TRUE(frontend_->Cancel("a", jobs.back().id).ok());
  }
  EXPECT_EQ(frontend_->ListJobs("a", {.limit = 1000})->items.size(), kKept);
  EXPECT_TRUE(Messages(jobs[0]).empty());
  for (size_t i = 1; i < kKept; ++i) EXPECT_FALSE(Messages(jobs[i]).empty()) << i;
}

TEST_F(EtcdLearningStoreTest, WhileEtcdIsAwayAJobIsKept) {
  const LearningJob job = AddJob("a", AddFile("a", "x").id);
  const auto runner = Open("runner", Lease());
  const LearningJob mine = Claim(*runner);
  etcd_.Pause();
  EXPECT_FALSE(*runner->IsCancelled(job.id));
  EXPECT_FALSE(frontend_->ListJobs("a", {}).ok());
  etcd_.Resume();
  EXPECT_TRUE(Eventually([&] { return runner->Update(mine).ok(); }));
}

TEST_F(EtcdLearningStoreTest, AllProcessesHaveOneFolder) {
  const EtcdLearningStore::Options other = {.folder = folder_ + "-other"};
  const auto refused = EtcdLearningStore::Open(*cluster_, other);
  EXPECT_THAT(refused.status().message(), HasSubstr("one that all of them share"));
  fs::remove_all(other.folder);
  EXPECT_THAT(LearningFolder::Open(folder_, "another").status().message(),
              HasSubstr("another cluster has it"));
  fs::create_directories(other.folder + "/x");
  EXPECT_TRUE(std::ofstream(other.folder + "/learning.db").good());
  EXPECT_THAT(LearningFolder::Open(other.folder, "c").status().message(),
              HasSubstr("a single server's"));
  fs::remove_all(other.folder);
}

// Whatever the umask, and whatever an older version left.
TEST(LearningFolderTest, WhatHoldsDocumentsIsForOneUser) {
  const fs::path folder = fs::temp_directory_path() / ("graft_folder_" + std::to_string(getpid()));
  fs::create_directories(folder / "checkpoints");
  fs::permissions(folder / "checkpoints", fs::perms::all);
  ASSERT_TRUE(LearningFolder::Open(folder, "cluster").ok());
  for (const char* const part : {"files", "checkpoints", "adapters"}) {
    EXPECT_EQ(fs::status(folder / part).permissions(), fs::perms::owner_all) << part;
    fs::permissions(folder / part, fs::perms::all);
  }
  EXPECT_FALSE(LearningFolder::Open(folder, "another").ok());
  EXPECT_EQ(fs::status(folder / "files").permissions(), fs::perms::all) << "it is not the other's";
  fs::remove_all(folder);
}

}  // namespace
}  // namespace graft
