// Metrics in Prometheus' text format, through prometheus-cpp. Thread-safe; references stay valid as
// long as the Metrics object, or until they are removed. Code that labels series with a client's
// words bounds their number.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>
#include <prometheus/registry.h>

#include <map>
#include <mutex>
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

  // Remove a series of this name, which is gone when the call returns.
  void RemoveCounter(const std::string& name, prometheus::Counter& counter);
  void RemoveGauge(const std::string& name, prometheus::Gauge& gauge);

  // All series as they are now.
  using Families = std::vector<prometheus::MetricFamily>;
  Families Collect() const;
  // The page that Prometheus scrapes.
  static std::string Render(const Families& families);
  std::string Render() const { return Render(Collect()); }

 private:
  prometheus::Registry registry_;
  std::mutex mutex_;
  std::map<std::string, prometheus::Family<prometheus::Counter>*> counters_;
  std::map<std::string, prometheus::Family<prometheus::Gauge>*> gauges_;
  std::map<std::string, prometheus::Family<prometheus::Histogram>*> histograms_;
};

}  // namespace graft
