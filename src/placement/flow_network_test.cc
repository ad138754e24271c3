#include "placement/flow_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace graft {
namespace {

TEST(FlowNetworkTest, TakesTheCheapWayFirst) {
  FlowNetwork network(4);  // source 0, sink 3
  const size_t cheap = network.AddEdge(0, 1, 4, 1);
  const size_t dear = network.AddEdge(0, 2, 2, 2);
  const size_t across = network.AddEdge(1, 2, 2, 1);
  network.AddEdge(1, 3, 3, 3);
  network.AddEdge(2, 3, 5, 1);
  const FlowNetwork::Solution solution = network.Solve(0, 3);
  // Two by 0-1-2-3 at 3, two by 0-2-3 at 3, two by 0-1-3 at 4.
  EXPECT_EQ(solution.flow, 6);
  EXPECT_EQ(solution.cost, 2 * 3 + 2 * 3 + 2 * 4);
  EXPECT_EQ(network.FlowOf(cheap), 4);
  EXPECT_EQ(network.FlowOf(dear), 2);
  EXPECT_EQ(network.FlowOf(across), 2);
}

TEST(FlowNetworkTest, TakesBackWhatStandsInTheWay) {
  // The first path takes 0-1-2-3 at 0; the second has to undo its middle.
  FlowNetwork network(4);
  network.AddEdge(0, 1, 1, 0);
  network.AddEdge(0, 2, 1, 2);
  const size_t middle = network.AddEdge(1, 2, 1, 0);
  network.AddEdge(1, 3, 1, 5);
  network.AddEdge(2, 3, 1, 0);
  const FlowNetwork::Solution solution = network.Solve(0, 3);
  EXPECT_EQ(solution.flow, 2);
  EXPECT_EQ(solution.cost, 7);
  EXPECT_EQ(network.FlowOf(middle), 0);
}

// Against all ways to give each of n tasks a worker of its own.
TEST(FlowNetworkTest, IsAsCheapAsTheBestAssignment) {
  Random random(3);
  for (int round = 0; round < 200; ++round) {
    const size_t n = 2 + random.Below(5);
    std::vector<std::vector<int64_t>> costs(n, std::vector<int64_t>(n));
    FlowNetwork network(2 + 2 * n);
    for (size_t i = 0; i < n; ++i) {
      network.AddEdge(0, 2 + i, 1, 0);
      network.AddEdge(2 + n + i, 1, 1, 0);
      for (size_t j = 0; j < n; ++j) {
        costs[i][j] = static_cast<int64_t>(random.Below(20));
        network.AddEdge(2 + i, 2 + n + j, 1, costs[i][j]);
      }
    }
    std::vector<size_t> order(n);
    std::iota(order.begin(), order.end(), size_t{0});
    int64_t best = 1000;
    do {
      int64_t cost = 0;
      for (size_t i = 0; i < n; ++i) cost += costs[i][order[i]];
      best = std::min(best, cost);
    } while (std::next_permutation(order.begin(), order.end()));
    const FlowNetwork::Solution solution = network.Solve(0, 1);
    EXPECT_EQ(solution.flow, static_cast<int64_t>(n)) << "round " << round;
    EXPECT_EQ(solution.cost, best) << "round " << round;
  }
}

}  // namespace
}  // namespace graft
