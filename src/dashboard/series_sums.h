// Sums over a snapshot's series for the dashboard, and quantiles of histograms. A series such as
// "graft_pages" of a server is "graft_runner_pages" at a frontend; a look-up of "pages" finds both.
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/metrics.h"

namespace graft {

// Which series: a family's name without "graft_" or "graft_runner_", and a label's value.
struct SeriesSelector {
  std::string_view family;
  std::string_view label = {};  // "": all series of the family
  std::string_view value = {};
};

// nullptr: there is none. A frontend's runners go before the process itself.
const prometheus::MetricFamily* FindFamily(const Metrics::Families& families,
                                           std::string_view family);

// The sum of the counters or gauges; for histograms, the number of observations. Nothing if there
// is no such family.
std::optional<double> SumOf(const Metrics::Families& families, const SeriesSelector& selector);

// How many observations were at most as large as each bound, all series of a family together.
struct BucketCounts {
  std::vector<double> bounds;  // rising; the last one is infinite
  std::vector<double> counts;  // up to each bound
  double total() const { return counts.empty() ? 0.0 : counts.back(); }
};
BucketCounts BucketsOf(const Metrics::Families& families, std::string_view family);
// What was observed after `earlier` was taken.
BucketCounts Since(const BucketCounts& earlier, BucketCounts now);
// As Prometheus' histogram_quantile: linear inside the bucket, and the last finite bound for what
// is beyond it. Nothing where nothing was observed.
std::optional<double> Quantile(const BucketCounts& buckets, double share);

}  // namespace graft
