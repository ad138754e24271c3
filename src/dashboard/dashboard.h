// What /metrics and the dashboard show: numbered snapshots of all series, and an hour's history.
// Each request for /metrics takes a snapshot. The dashboard shows a recent snapshot again, so that
// its figures are those of the /metrics page with the same number. A thread of its own, between
// Start and Stop, adds to the history. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/metrics.h"
#include "dashboard/dashboard_jobs.h"
#include "dashboard/series_history.h"
#include "request/adapter_catalog.h"

namespace graft {

struct DashboardParts {
  Metrics& metrics;
  const AdapterCatalog& catalog;
  std::string base_model;
  // The number of runners thought to hold a content on their devices; empty: the device is here.
  std::function<int32_t(const std::string& hash)> num_holders;
  LearningJobs* learning = nullptr;  // null: this server has no jobs
};

class Dashboard {
 public:
  explicit Dashboard(DashboardParts parts);
  ~Dashboard();  // Stop()s

  // `sample` sets the figures that are read only when the metrics are asked for.
  void Start(std::function<void()> sample);
  void Stop();

  // For the page that Prometheus scrapes: a new snapshot.
  Metrics::Families Scrape();
  // What the page shows, as JSON: the last snapshot, where it is fresh, and the points of the
  // history from number `since` on.
  std::string DataJson(uint64_t since);
  // Reads the jobs, counts the adapters, if it is time to, and adds a point to the history.
  void AddPoint(int64_t unix_ms);

 private:
  struct Snapshot {
    uint64_t number = 0;
    int64_t unix_ms = 0;
    Metrics::Families families;
  };

  std::shared_ptr<const Snapshot> Take(int64_t unix_ms);
  std::shared_ptr<const Snapshot> Fresh(int64_t unix_ms);
  AdapterState StateOf(const AdapterInfo& adapter) const;
  void CountAdapters(int64_t unix_ms);
  void AppendLatencies(const Snapshot& snapshot, std::string* out);
  void AppendAdapters(const Snapshot& snapshot, std::string* out) const;
  void Loop();

  const DashboardParts parts_;
  const int64_t start_ms_;
  prometheus::Gauge& number_;
  std::vector<prometheus::Gauge*> adapters_;  // by AdapterState
  DashboardJobs jobs_;
  std::function<void()> sample_;
  int64_t count_again_ms_ = 0;  // the thread's

  std::mutex take_mutex_;  // a snapshot's number is in it
  uint64_t num_taken_ = 0;
  std::shared_ptr<const Snapshot> last_;  // shared with requests that still write it out

  std::mutex history_mutex_;
  SeriesHistory history_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace graft
