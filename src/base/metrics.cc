#include "base/metrics.h"

#include <prometheus/text_serializer.h>

namespace graft {
namespace {

// The family of this name, which `build` makes the first time.
template <typename Families, typename Builder>
auto& FamilyOf(Families& families, Builder (*build)(), const std::string& name,
               const std::string& help, prometheus::Registry& registry) {
  auto it = families.find(name);
  if (it == families.end()) {
    it = families.emplace(name, &build().Name(name).Help(help).Register(registry)).first;
  }
  return *it->second;
}

}  // namespace

prometheus::Counter& Metrics::Counter(const std::string& name, const std::string& help,
                                      const Labels& labels) {
  std::lock_guard lock(mutex_);
  return FamilyOf(counters_, prometheus::BuildCounter, name, help, registry_).Add(labels);
}

prometheus::Gauge& Metrics::Gauge(const std::string& name, const std::string& help,
                                  const Labels& labels) {
  std::lock_guard lock(mutex_);
  return FamilyOf(gauges_, prometheus::BuildGauge, name, help, registry_).Add(labels);
}

prometheus::Histogram& Metrics::Histogram(const std::string& name, const std::string& help,
                                          const std::vector<double>& bounds, const Labels& labels) {
  std::lock_guard lock(mutex_);
  return FamilyOf(histograms_, prometheus::BuildHistogram, name, help, registry_)
      .Add(labels, bounds);
}

void Metrics::RemoveCounter(const std::string& name, prometheus::Counter& counter) {
  std::lock_guard lock(mutex_);
  const auto family = counters_.find(name);
  if (family != counters_.end()) family->second->Remove(&counter);
}

void Metrics::RemoveGauge(const std::string& name, prometheus::Gauge& gauge) {
  std::lock_guard lock(mutex_);
  const auto family = gauges_.find(name);
  if (family != gauges_.end()) family->second->Remove(&gauge);
}

Metrics::Families Metrics::Collect() const { return registry_.Collect(); }

std::string Metrics::Render(const Families& families) {
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace graft
