#include "dashboard/dashboard_jobs.h"

#include <utility>

#include "base/json.h"
#include "base/log.h"

namespace graft {
namespace {

constexpr int32_t kJobsShown = 20;

// One job as a row. Its figures are null before it has told of a step.
Json RowJson(const JobsOverview::Row& row) {
  const LearningJob& job = row.job;
  const Result<Json> told = ParseJson(row.progress);
  const auto figure = [&told](const char* name) {
    return told.ok() && told->is_object() && told->contains(name) ? (*told)[name] : Json();
  };
  return {{"id", job.id},
          {"name", job.adapter.empty() ? LearnedName(job) : job.adapter},
          {"tenant", job.tenant},
          {"status", JobStatusName(job.status)},
          {"learner", job.method.learner},
          {"step", figure("step")},
          {"total_steps", figure("total_steps")},
          {"loss", figure("train_loss")},
          {"created_at", job.created_at},
          {"started_at", job.started_at},
          {"finished_at", job.finished_at},
          {"estimated_finish", job.estimated_finish},
          {"error", job.error.message}};
}

}  // namespace

DashboardJobs::DashboardJobs(LearningJobs* learning, Metrics& metrics) : learning_(learning) {
  if (learning_ == nullptr) return;
  for (size_t i = 0; i < kNumJobStatuses; ++i) {
    counts_.push_back(&metrics.Gauge("graft_learning_jobs", "Fine-tuning jobs of all tenants",
                                     {{"status", JobStatusName(static_cast<JobStatus>(i))}}));
  }
}

void DashboardJobs::Read() {
  if (learning_ == nullptr) return;
  const Result<JobsOverview> overview = learning_->store().Overview(kJobsShown);
  if (!overview.ok()) {
    if (!std::exchange(has_failed_, true)) {
      LOG_WARN("the dashboard's fine-tuning jobs: {}", overview.status().message());
    }
    return;
  }
  has_failed_ = false;
  Json list = Json::array();
  for (const JobsOverview::Row& row : overview->rows) list.push_back(RowJson(row));
  for (size_t i = 0; i < counts_.size(); ++i) {
    counts_[i]->Set(static_cast<double>(overview->counts[i]));
  }
  std::lock_guard lock(mutex_);
  list_json_ = DumpJson(list);
}

std::string DashboardJobs::ListJson() const {
  std::lock_guard lock(mutex_);
  return list_json_;
}

}  // namespace graft
