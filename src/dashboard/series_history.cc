#include "dashboard/series_history.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <utility>

namespace graft {
namespace {

constexpr int64_t kMinuteMs = 60'000;

// A figure of a snapshot: of a gauge its value, of what counts how much more it is a second.
struct HistoryRow {
  const char* key;
  SeriesSelector selector;
  bool is_rate = false;
};

constexpr HistoryRow kHistoryRows[] = {
    {"output_tokens", {"output_tokens_total"}, true},
    {"prompt_tokens", {"prompt_tokens_total"}, true},
    {"requests", {"time_to_first_token_seconds"}, true},
    {"waiting", {"requests_waiting"}},
    {"running", {"requests_running"}},
    {"unplaced", {"requests_unplaced"}},
    {"pages_referenced", {"pages", "state", "referenced"}},
    {"pages_cached", {"pages", "state", "cached"}},
    {"pages_adapters", {"pages", "state", "adapters"}},
    {"pages_free", {"pages", "state", "free"}},
    {"rows_prompt", {"step_rows", "kind", "prompt"}},
    {"rows_decode", {"step_rows", "kind", "decode"}},
    {"batch_sequences", {"step_sequences"}},
    {"batch_adapters", {"step_adapters"}},
    {"adapters_resident", {"adapters_resident"}},
    {"copies", {"adapter_events_total", "event", "copy"}, true},
    {"evictions", {"adapter_events_total", "event", "evict"}, true},
    {"preemptions", {"preemptions_total"}, true},
    {"placed_base", {"placements_total", "adapter", "base"}, true},
    {"placed_resident", {"placements_total", "adapter", "resident"}, true},
    {"placed_cold", {"placements_total", "adapter", "cold"}, true},
    {"moved", {"migrations_total"}, true},
    {"jobs_queued", {"learning_jobs", "status", "queued"}},
    {"jobs_running", {"learning_jobs", "status", "running"}},
};
constexpr size_t kNumHistoryRows = std::size(kHistoryRows);

// After these come the latencies' columns: for each of kLatencyRows its quantiles.
struct QuantileColumn {
  const char* suffix;
  double share;
};
constexpr QuantileColumn kQuantileColumns[] = {{"_p50", 0.5}, {"_p99", 0.99}};
constexpr size_t kNumColumns = kNumHistoryRows + kLatencyRows.size() * std::size(kQuantileColumns);

std::string ColumnName(size_t column) {
  if (column < kNumHistoryRows) return kHistoryRows[column].key;
  const size_t place = column - kNumHistoryRows;
  return std::string(kLatencyRows[place / std::size(kQuantileColumns)].key) +
         kQuantileColumns[place % std::size(kQuantileColumns)].suffix;
}

void AppendFigure(float figure, std::string* out) {
  if (std::isnan(figure)) {
    *out += "null";
    return;
  }
  char text[32];
  out->append(text, static_cast<size_t>(
                        std::snprintf(text, sizeof(text), "%.5g", static_cast<double>(figure))));
}

}  // namespace

SeriesHistory::SeriesHistory(size_t points_max)
    : points_max_(points_max),
      figures_(points_max * kNumColumns, std::numeric_limits<float>::quiet_NaN()),
      times_ms_(points_max),
      totals_(kNumHistoryRows, std::numeric_limits<double>::quiet_NaN()) {}

std::span<float> SeriesHistory::PointAt(uint64_t number) {
  return std::span(figures_).subspan(number % points_max_ * kNumColumns, kNumColumns);
}

std::span<const float> SeriesHistory::PointAt(uint64_t number) const {
  return std::span(figures_).subspan(number % points_max_ * kNumColumns, kNumColumns);
}

void SeriesHistory::Add(const Metrics::Families& families, int64_t unix_ms) {
  const std::span<float> point = PointAt(num_points_);
  const int64_t before_ms = num_points_ == 0 ? unix_ms : times_ms_[(num_points_ - 1) % points_max_];
  const double seconds = static_cast<double>(unix_ms - before_ms) / 1e3;
  for (size_t i = 0; i < kNumHistoryRows; ++i) {
    const std::optional<double> sum = SumOf(families, kHistoryRows[i].selector);
    double figure = sum.value_or(std::numeric_limits<double>::quiet_NaN());
    if (kHistoryRows[i].is_rate) {
      const double before = std::exchange(totals_[i], figure);
      // Series that were removed take their counts with them.
      const double more = figure - before < 0.0 ? 0.0 : figure - before;
      figure = seconds > 0.0 ? more / seconds : std::numeric_limits<double>::quiet_NaN();
    }
    point[i] = static_cast<float>(figure);
  }
  AddLatencies(families, point, unix_ms);
  times_ms_[num_points_ % points_max_] = unix_ms;
  ++num_points_;
}

void SeriesHistory::AddLatencies(const Metrics::Families& families, std::span<float> point,
                                 int64_t unix_ms) {
  Past now{.unix_ms = unix_ms};
  size_t column = kNumHistoryRows;
  for (size_t i = 0; i < kLatencyRows.size(); ++i) {
    now.latencies[i] = BucketsOf(families, kLatencyRows[i].family);
    const BucketCounts since = last_minute_.empty()
                                   ? BucketCounts()
                                   : Since(last_minute_.back().latencies[i], now.latencies[i]);
    for (const QuantileColumn& quantile : kQuantileColumns) {
      point[column++] = static_cast<float>(Quantile(since, quantile.share).value_or(NAN));
    }
  }
  last_minute_.push_back(std::move(now));
  while (unix_ms - last_minute_.front().unix_ms > kMinuteMs) last_minute_.pop_front();
}

BucketCounts SeriesHistory::Recent(const Metrics::Families& families, size_t latency_idx) const {
  BucketCounts now = BucketsOf(families, kLatencyRows[latency_idx].family);
  if (last_minute_.empty()) return now;
  return Since(last_minute_.front().latencies[latency_idx], std::move(now));
}

void SeriesHistory::AppendJson(uint64_t since, std::string* out) const {
  const uint64_t oldest = num_points_ > points_max_ ? num_points_ - points_max_ : 0;
  // A number from another server's life is none of this one's.
  const uint64_t first = since > num_points_ ? oldest : std::max(since, oldest);
  *out += "{\"next\":" + std::to_string(num_points_) + ",\"first\":" + std::to_string(first) +
          ",\"times\":[";
  const char* comma = "";
  for (uint64_t number = first; number < num_points_; ++number) {
    char text[32];
    std::snprintf(text, sizeof(text), "%s%.3f", std::exchange(comma, ","),
                  static_cast<double>(times_ms_[number % points_max_]) / 1e3);
    *out += text;
  }
  *out += "],\"columns\":{";
  for (size_t column = 0; column < kNumColumns; ++column) {
    *out += (column == 0 ? "\"" : ",\"") + ColumnName(column) + "\":[";
    comma = "";
    for (uint64_t number = first; number < num_points_; ++number) {
      *out += std::exchange(comma, ",");
      AppendFigure(PointAt(number)[column], out);
    }
    *out += ']';
  }
  *out += "}}";
}

}  // namespace graft
