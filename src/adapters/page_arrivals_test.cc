#include "adapters/page_arrivals.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

constexpr int32_t kArrivalLayers = 2;

HostStore::Held ArrivingAdapter() {
  HostAdapter adapter;
  adapter.facts.num_layers = kArrivalLayers;
  return HostStore::Held::Of(std::move(adapter));
}

StepPlan PlanNaming(AdapterSlot slot) {
  StepPlan plan;
  plan.sequences.push_back({.adapter_slot = slot});
  return plan;
}

// What is here may still be on its way to another rank, until all have told of it.
TEST(ArrivalGateTest, AnArrivalIsNamedUntilItHasEnded) {
  PageArrivals arrivals(Device{}, kArrivalLayers, 2);
  ArrivalGate gate;
  gate.Reset(PlanNaming(1), &arrivals);
  EXPECT_TRUE(gate.is_open());
  EXPECT_FALSE(gate.names_arrivals());
  arrivals.Begin(1, ArrivingAdapter());
  gate.Reset(PlanNaming(1), &arrivals);
  EXPECT_FALSE(gate.is_open());
  EXPECT_TRUE(gate.names_arrivals());
  for (int32_t layer = 0; layer < kArrivalLayers; ++layer) arrivals.At(1).QueuedLayer(Stream{});
  gate.Reset(PlanNaming(1), &arrivals);
  EXPECT_TRUE(gate.is_open()) << "all rows are here";
  EXPECT_TRUE(gate.names_arrivals());
  gate.Reset(PlanNaming(0), &arrivals);
  EXPECT_FALSE(gate.names_arrivals()) << "another adapter's";
  arrivals.End(1);
  gate.Reset(PlanNaming(1), &arrivals);
  EXPECT_FALSE(gate.names_arrivals());
}

}  // namespace
}  // namespace graft
