#include "cluster/leader_duties.h"

#include <algorithm>

#include "cluster/cluster_keys.h"

namespace graft {
namespace {

// Of a budget, for all frontends alike.
constexpr double kEvenPart = 0.5;
constexpr double kFullPart = 0.75;

// Requests a minute; 0: no limit.
double BudgetOf(const Json& key) {
  const auto it = key.is_object() ? key.find("requests_per_minute") : key.end();
  return it != key.end() && it->is_number() ? it->get<double>() : 0;
}

double DemandOf(const FrontendRecord& frontend, const std::string& digest) {
  const auto it = frontend.demand.find(digest);
  return it == frontend.demand.end() ? 0 : std::max(it->second, 0.0);
}

}  // namespace

std::map<std::string, std::map<std::string, double>> LendSlices(const ClusterView& view) {
  std::map<std::string, std::map<std::string, double>> slices;
  const auto num_frontends = static_cast<double>(view.frontends.size());
  for (const auto& [digest, key] : view.registry->keys) {
    const double budget = BudgetOf(key);
    if (budget <= 0) continue;
    double demand = 0;
    for (const auto& [id, frontend] : view.frontends) demand += DemandOf(frontend, digest);
    for (const auto& [id, frontend] : view.frontends) {
      const double even = budget / num_frontends;
      const double asked = demand > 0 ? budget * DemandOf(frontend, digest) / demand : even;
      slices[id][digest] = kEvenPart * even + (1 - kEvenPart) * asked;
    }
  }
  return slices;
}

std::map<std::string, int32_t> WantedCopies(const ClusterView& view) {
  std::map<std::string, int32_t> wanted;
  int32_t num_runners = 0;
  for (const auto& [id, runner] : view.runners) num_runners += runner.draining ? 0 : 1;
  if (num_runners == 0) return wanted;
  for (const auto& [name, adapter] : view.registry->adapters) {
    const std::string& hash = adapter.entry.hash;
    double full = 0;
    int32_t num_resident = 0;
    for (const auto& [id, runner] : view.runners) {
      const auto& resident = runner.resident;
      const bool has_it = std::find(resident.begin(), resident.end(), hash) != resident.end();
      if (!has_it || runner.draining || runner.capacity_requests <= 0) continue;
      ++num_resident;
      full += static_cast<double>(runner.running_requests) / runner.capacity_requests;
    }
    if (num_resident == 0 || full / num_resident <= kFullPart) continue;
    const int32_t copies = std::min(num_resident + 1, num_runners);
    if (copies > 1) wanted[hash] = copies;
  }
  return wanted;
}

std::vector<EtcdOperation> LeaderWrites(const ClusterView& view) {
  std::vector<EtcdOperation> writes;
  const auto wanted = WantedCopies(view);
  if (wanted != view.leader.wanted) {
    writes.push_back(EtcdOperation::Put(WantedKey(), DumpJson(wanted)));
  }
  const auto slices = LendSlices(view);
  if (slices != view.leader.slices) {
    writes.push_back(EtcdOperation::Put(SlicesKey(), DumpJson(slices)));
  }
  return writes;
}

}  // namespace graft
