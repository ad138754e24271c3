#include "dashboard/series_sums.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace graft {
namespace {

bool HasLabel(const prometheus::ClientMetric& series, const SeriesSelector& selector) {
  if (selector.label.empty()) return true;
  return std::any_of(series.label.begin(), series.label.end(), [&](const auto& label) {
    return label.name == selector.label && label.value == selector.value;
  });
}

double ValueOf(const prometheus::MetricFamily& family, const prometheus::ClientMetric& series) {
  switch (family.type) {
    case prometheus::MetricType::Counter:
      return series.counter.value;
    case prometheus::MetricType::Gauge:
      return series.gauge.value;
    case prometheus::MetricType::Histogram:
      return static_cast<double>(series.histogram.sample_count);
    default:
      return 0.0;
  }
}

}  // namespace

const prometheus::MetricFamily* FindFamily(const Metrics::Families& families,
                                           std::string_view family) {
  for (const std::string_view prefix : {"graft_runner_", "graft_"}) {
    for (const prometheus::MetricFamily& one : families) {
      const std::string_view name = one.name;
      if (!one.metric.empty() && name.size() == prefix.size() + family.size() &&
          name.starts_with(prefix) && name.ends_with(family)) {
        return &one;
      }
    }
  }
  return nullptr;
}

std::optional<double> SumOf(const Metrics::Families& families, const SeriesSelector& selector) {
  const prometheus::MetricFamily* const family = FindFamily(families, selector.family);
  if (family == nullptr) return std::nullopt;
  double sum = 0.0;
  for (const prometheus::ClientMetric& series : family->metric) {
    if (HasLabel(series, selector)) sum += ValueOf(*family, series);
  }
  return sum;
}

BucketCounts BucketsOf(const Metrics::Families& families, std::string_view family) {
  BucketCounts buckets;
  const prometheus::MetricFamily* const found = FindFamily(families, family);
  if (found == nullptr) return buckets;
  for (const prometheus::ClientMetric& series : found->metric) {
    const auto& its = series.histogram.bucket;
    if (buckets.bounds.empty()) {
      for (const auto& bucket : its) buckets.bounds.push_back(bucket.upper_bound);
      buckets.counts.resize(its.size());
    }
    for (size_t i = 0; i < std::min(its.size(), buckets.counts.size()); ++i) {
      buckets.counts[i] += static_cast<double>(its[i].cumulative_count);
    }
  }
  return buckets;
}

BucketCounts Since(const BucketCounts& earlier, BucketCounts now) {
  for (size_t i = 0; i < std::min(earlier.counts.size(), now.counts.size()); ++i) {
    now.counts[i] -= earlier.counts[i];
  }
  return now;
}

std::optional<double> Quantile(const BucketCounts& buckets, double share) {
  if (buckets.total() <= 0.0) return std::nullopt;
  const double rank = share * buckets.total();
  const auto it = std::lower_bound(buckets.counts.begin(), buckets.counts.end(), rank);
  const auto idx = static_cast<size_t>(it - buckets.counts.begin());
  const double below = idx == 0 ? 0.0 : buckets.bounds[idx - 1];
  if (idx >= buckets.bounds.size() || std::isinf(buckets.bounds[idx])) return below;
  const double before = idx == 0 ? 0.0 : buckets.counts[idx - 1];
  const double inside = buckets.counts[idx] - before;
  if (inside <= 0.0) return buckets.bounds[idx];
  return below + (buckets.bounds[idx] - below) * (rank - before) / inside;
}

}  // namespace graft
