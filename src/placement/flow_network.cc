#include "placement/flow_network.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include "base/check.h"

namespace graft {

size_t FlowNetwork::AddEdge(size_t from, size_t to, int64_t capacity, int64_t cost) {
  CHECK_GE(cost, 0);
  out_[from].push_back(edges_.size());
  edges_.push_back({to, capacity, cost});
  out_[to].push_back(edges_.size());
  edges_.push_back({from, 0, -cost});
  return edges_.size() / 2 - 1;
}

// Nodes that are nearer than the sink keep costs along their edges from falling below 0 by what
// they are nearer.
bool FlowNetwork::FindPath(size_t source, size_t sink) {
  for (const size_t node : touched_) reached_[node] = {};
  touched_.assign(1, source);
  reached_[source].distance = 0;
  using Next = std::pair<int64_t, size_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  next.emplace(0, source);
  while (!next.empty()) {
    const auto [distance, node] = next.top();
    next.pop();
    if (reached_[node].is_settled) continue;
    reached_[node].is_settled = true;
    if (node == sink) break;
    for (const size_t idx : out_[node]) {
      const Edge& edge = edges_[idx];
      if (edge.room == 0) continue;
      const int64_t there = distance + edge.cost + potential_[node] - potential_[edge.to];
      Reached& to = reached_[edge.to];
      if (to.distance >= 0 && to.distance <= there) continue;
      if (to.distance < 0) touched_.push_back(edge.to);
      to.distance = there;
      to.by = idx;
      next.emplace(there, edge.to);
    }
  }
  if (!reached_[sink].is_settled) return false;
  const int64_t to_sink = reached_[sink].distance;
  for (const size_t node : touched_) {
    if (reached_[node].is_settled) potential_[node] += reached_[node].distance - to_sink;
  }
  return true;
}

FlowNetwork::Solution FlowNetwork::Solve(size_t source, size_t sink) {
  reached_.assign(out_.size(), {});
  touched_.clear();
  Solution solution;
  while (FindPath(source, sink)) {
    int64_t room = std::numeric_limits<int64_t>::max();
    for (size_t node = sink; node != source; node = edges_[reached_[node].by ^ 1].to) {
      room = std::min(room, edges_[reached_[node].by].room);
    }
    for (size_t node = sink; node != source; node = edges_[reached_[node].by ^ 1].to) {
      const size_t idx = reached_[node].by;
      edges_[idx].room -= room;
      edges_[idx ^ 1].room += room;
      solution.cost += room * edges_[idx].cost;
    }
    solution.flow += room;
  }
  return solution;
}

}  // namespace graft
