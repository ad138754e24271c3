// The least time of runners, worked out by hand and by trying all.
#include "sim/load_bound.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace graft {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

double LeastOf(const std::vector<std::pair<int, int>>& requests, int32_t batch, double startup) {
  SimWorkload workload;
  std::vector<SimOutcome> outcomes;
  for (const auto& [begin, end] : requests) {
    workload.requests.push_back({.arrival_ns = begin * kSecondNs});
    outcomes.push_back({.end_ns = end * kSecondNs});
  }
  return LeastRunnerSeconds(workload, outcomes, batch, startup);
}

TEST(OfflineBoundTest, ARunnerForEachBatch) {
  EXPECT_DOUBLE_EQ(LeastOf({}, 2, 5), 0);
  EXPECT_DOUBLE_EQ(LeastOf({{0, 10}}, 2, 5), 15);
  EXPECT_DOUBLE_EQ(LeastOf({{0, 10}, {0, 10}}, 2, 5), 15);
  EXPECT_DOUBLE_EQ(LeastOf({{0, 10}, {0, 10}, {4, 6}}, 2, 5), 15 + 7);
  EXPECT_DOUBLE_EQ(LeastOf({{0, 10}, {10, 20}}, 1, 5), 25) << "one's end is the other's place";
}

TEST(OfflineBoundTest, APauseShorterThanAStartIsPaidFor) {
  EXPECT_DOUBLE_EQ(LeastOf({{0, 10}, {15, 20}}, 1, 5), 25);
  EXPECT_DOUBLE_EQ(LeastOf({{0, 10}, {16, 20}}, 1, 5), 10 + 4 + 2 * 5);
}

TEST(OfflineBoundTest, WhatWasRefusedNeedsNobody) {
  SimWorkload workload;
  workload.requests.resize(1);
  EXPECT_DOUBLE_EQ(
      LeastRunnerSeconds(workload, {{.end_ns = 9 * kSecondNs, .is_refused = true}}, 1, 5), 0);
}

// Over whole seconds: the cheapest of all ways to have enough runners each second.
double LeastByTrying(const std::vector<int>& needed, double startup) {
  const int most = *std::max_element(needed.begin(), needed.end());
  std::vector<double> cost(static_cast<size_t>(most) + 1);  // by how many there are now
  for (int n = 0; n <= most; ++n) cost[static_cast<size_t>(n)] = n * startup;
  for (const int need : needed) {
    std::vector<double> next(cost.size(), 1e18);
    for (int to = need; to <= most; ++to) {
      for (int from = 0; from <= most; ++from) {
        const double way = cost[static_cast<size_t>(from)] + to + std::max(0, to - from) * startup;
        next[static_cast<size_t>(to)] = std::min(next[static_cast<size_t>(to)], way);
      }
    }
    cost = next;
  }
  return *std::min_element(cost.begin(), cost.end());
}

TEST(OfflineBoundTest, NobodyDoesWithLess) {
  Random random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::pair<int, int>> requests;
    std::vector<int> in_flight(24, 0);
    for (int i = 0; i < 12; ++i) {
      const int begin = static_cast<int>(random.Below(20));
      const int end = begin + 1 + static_cast<int>(random.Below(4));
      requests.emplace_back(begin, end);
      for (int second = begin; second < end; ++second) ++in_flight[static_cast<size_t>(second)];
    }
    const auto batch = static_cast<int32_t>(1 + random.Below(3));
    const double startup = 1.0 + static_cast<double>(random.Below(5));
    std::vector<int> needed;
    for (const int requests_there : in_flight)
      needed.push_back((requests_there + batch - 1) / batch);
    std::sort(requests.begin(), requests.end());
    EXPECT_DOUBLE_EQ(LeastOf(requests, batch, startup), LeastByTrying(needed, startup)) << round;
  }
}

}  // namespace
}  // namespace graft
