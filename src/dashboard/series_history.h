// The last hour of the dashboard's charts: a point of some thirty figures for each snapshot that is
// added, in a ring that is allocated at the start. Figures of counters are rates since the point
// before. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "dashboard/series_sums.h"

namespace graft {

// A histogram that is shown by its quantiles.
struct LatencyRow {
  const char* key;  // its name for the page
  const char* family;
};
inline constexpr std::array<LatencyRow, 2> kLatencyRows = {
    {{"first_token", "time_to_first_token_seconds"}, {"next_token", "inter_token_seconds"}}};

class SeriesHistory {
 public:
  explicit SeriesHistory(size_t points_max);

  // A snapshot taken at this time, later than the one before.
  void Add(const Metrics::Families& families, int64_t unix_ms);
  // {"next":N,"times":[seconds],"columns":{"name":[figures]}} of the points from number `since` on
  // that there still are; null where a figure was not known. `next` is the number to ask for then.
  void AppendJson(uint64_t since, std::string* out) const;
  // What was observed in about the last minute, in `families` and since the oldest point of it.
  BucketCounts Recent(const Metrics::Families& families, size_t latency_idx) const;

 private:
  struct Past {
    int64_t unix_ms = 0;
    std::array<BucketCounts, kLatencyRows.size()> latencies;
  };

  std::span<float> PointAt(uint64_t number);
  std::span<const float> PointAt(uint64_t number) const;
  void AddLatencies(const Metrics::Families& families, std::span<float> point, int64_t unix_ms);

  const size_t points_max_;
  uint64_t num_points_ = 0;     // so far, those included that the ring has lost
  std::vector<float> figures_;  // [points_max, columns]; NaN: not known
  std::vector<int64_t> times_ms_;
  std::vector<double> totals_;  // of the counters, at the last point
  std::deque<Past> last_minute_;
};

}  // namespace graft
