// FlowNetwork: min-cost flow by successive shortest paths. Dijkstra with potentials ends at the
// sink, so that a path visits only the nodes near it. Costs of edges are 0 or more. Plain data, no
// thread of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace graft {

class FlowNetwork {
 public:
  explicit FlowNetwork(size_t num_nodes) : out_(num_nodes), potential_(num_nodes, 0) {}

  // The edge's number, for FlowOf. `cost` of each unit.
  size_t AddEdge(size_t from, size_t to, int64_t capacity, int64_t cost);
  // As much flow as there is room for, at the least cost; once.
  struct Solution {
    int64_t flow = 0;
    int64_t cost = 0;
  };
  Solution Solve(size_t source, size_t sink);
  int64_t FlowOf(size_t edge) const { return edges_[2 * edge + 1].room; }

 private:
  struct Edge {
    size_t to = 0;
    int64_t room = 0;
    int64_t cost = 0;
  };
  struct Reached {
    int64_t distance = -1;  // -1: not so far
    bool is_settled = false;
    size_t by = 0;  // edge
  };
  bool FindPath(size_t source, size_t sink);

  std::vector<Edge> edges_;  // each followed by the one that takes its flow back
  std::vector<std::vector<size_t>> out_;
  std::vector<int64_t> potential_;
  std::vector<Reached> reached_;  // by node
  std::vector<size_t> touched_;   // nodes of reached_
};

}  // namespace graft
