#include "cluster/leader_duties.h"

#include <algorithm>

#include "cluster/cluster_keys.h"

namespace graft {
namespace {

// Of a budget, for all frontends alike.
constexpr double kEvenPart = 0.5;

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

std::map<std::string, double> EvenSlice(const ClusterView& view) {
  std::map<std::string, double> slice;
  const auto num_frontends = static_cast<double>(std::max<size_t>(view.frontends.size(), 1));
  for (const auto& [digest, key] : view.registry->keys) {
    if (const double budget = BudgetOf(key); budget > 0) slice[digest] = budget / num_frontends;
  }
  return slice;
}

std::map<std::string, double> SharesOf(const ClusterView& view, const std::string& frontend,
                                       bool stands) {
  std::map<std::string, double> shares = EvenSlice(view);
  const auto lent = view.leader.slices.find(frontend);
  if (!view.away.ok() || !stands || lent == view.leader.slices.end()) return shares;
  // A key that is new, or was taken away, is not in both.
  for (const auto& [digest, requests] : lent->second) {
    if (shares.contains(digest)) shares[digest] = requests;
  }
  return shares;
}

std::vector<EtcdOperation> HintWrites(const ClusterView& view, const ScaleHint& hint,
                                      int64_t lease_id) {
  if (view.leader.hint == hint) return {};
  return {EtcdOperation::Put(HintKey(), EncodeRecord(hint), lease_id)};
}

std::vector<EtcdOperation> LeaderWrites(const ClusterView& view, int64_t lease_id) {
  const auto slices = LendSlices(view);
  if (slices == view.leader.slices) return {};
  return {EtcdOperation::Put(SlicesKey(), DumpJson(slices), lease_id)};
}

}  // namespace graft
