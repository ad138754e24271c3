// The dashboard's fine-tuning jobs: how many there are by status, as series of /metrics, and the
// newest of them. Read by the dashboard's thread alone, and shown by any.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "jobs/learning_jobs.h"

namespace graft {

class DashboardJobs {
 public:
  // `learning` null: this server has none.
  DashboardJobs(LearningJobs* learning, Metrics& metrics);

  // Asks the store, which may wait for the disk. What was read last stays where that fails.
  void Read();
  // An array of jobs, those not finished first, the newest first; "" without any to show.
  std::string ListJson() const;

 private:
  LearningJobs* const learning_;
  std::vector<prometheus::Gauge*> counts_;  // by JobStatus
  bool has_failed_ = false;                 // the last time
  mutable std::mutex mutex_;
  std::string list_json_;
};

}  // namespace graft
