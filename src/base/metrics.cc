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

std::string Metrics::BoundedLabel(const std::string& label, const std::string& value,
                                  size_t values_max) {
  std::lock_guard lock(mutex_);
  std::set<std::string>& seen = label_values_[label];
  if (seen.count(value) != 0) return value;
  if (seen.size() >= values_max) return "other";
  seen.insert(value);
  return value;
}

std::string Metrics::Render() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

}  // namespace graft
