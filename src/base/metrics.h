// Metrics in Prometheus' text format, through prometheus-cpp. Thread-safe; references stay valid as
// long as the Metrics object. Label values that a client chooses must go through BoundedLabel.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace graft {

class Metrics {
 public:
  using Labels = std::map<std::string, std::string>;

  // Each returns the one object of this name and these labels, made at the first call.
  prometheus::Counter& Counter(const std::string& name, const std::string& help,
                               const Labels& labels = {});
  prometheus::Gauge& Gauge(const std::string& name, const std::string& help,
                           const Labels& labels = {});
  prometheus::Histogram& Histogram(const std::string& name, const std::string& help,
                                   const std::vector<double>& bounds, const Labels& labels = {});

  // `value` if it is among the first `values_max` distinct ones seen for this label, else "other":
  // thousands of adapters must not become thousands of time series.
  std::string BoundedLabel(const std::string& label, const std::string& value,
                           size_t values_max = 100);

  // The page that Prometheus scrapes.
  std::string Render() const;

 private:
  prometheus::Registry registry_;
  std::mutex mutex_;
  std::map<std::string, prometheus::Family<prometheus::Counter>*> counters_;
  std::map<std::string, prometheus::Family<prometheus::Gauge>*> gauges_;
  std::map<std::string, prometheus::Family<prometheus::Histogram>*> histograms_;
  std::map<std::string, std::set<std::string>> label_values_;
};

}  // namespace graft
