#include "base/metrics.h"

#include <prometheus/text_serializer.h>

namespace graft {
namespace {

template <typename Families, typename Build>
auto& FamilyOf(Families& families, const std::string& name, const Build& build) {
  auto it = families.find(name);
  if (it == families.end()) it = families.emplace(name, &build()).first;
  return *it->second;
}

}  // namespace

prometheus::Counter& Metrics::Counter(const std::string& name, const std::string& help,
                                      const Labels& labels) {
  std::lock_guard lock(mutex_);
  return FamilyOf(
             counters_, name,
             [&]() -> auto& {
               return prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
             })
      .Add(labels);
}

prometheus::Gauge& Metrics::Gauge(const std::string& name, const std::string& help,
                                  const Labels& labels) {
  std::lock_guard lock(mutex_);
  return FamilyOf(
             gauges_, name,
             [&]() -> auto& {
               return prometheus::BuildGauge().Name(name).Help(help).Register(registry_);
             })
      .Add(labels);
}

prometheus::Histogram& Metrics::Histogram(const std::string& name, const std::string& help,
                                          const std::vector<double>& bounds, const Labels& labels) {
  std::lock_guard lock(mutex_);
  return FamilyOf(
             histograms_, name,
             [&]() -> auto& {
               return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_);
             })
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
