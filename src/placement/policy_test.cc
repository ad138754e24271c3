// Each policy on clusters small enough to work out by hand.
#include "placement/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/prefix_hash.h"

namespace graft {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

PlacedRequest RequestFor(int32_t adapter, int32_t rank = 16) {
  return {.adapter = adapter,
          .adapter_id = static_cast<uint64_t>(adapter) + 1,
          .rank = rank,
          .prompt_tokens = 16,
          .output_tokens_max = 128};
}

class PolicyTest : public testing::Test {
 protected:
  // So many requests of this rank on each runner; batches of 32.
  void MakeFleet(const std::vector<int32_t>& num_requests, int32_t rank = 16) {
    fleet_ = Fleet();
    fleet_.SetNumRunners(num_requests.size());
    for (size_t i = 0; i < num_requests.size(); ++i) {
      fleet_.runner(i) = {.id = 100 + i,
                          .is_open = true,
                          .batch_max = 32,
                          .adapters_max = 64,
                          .page_tokens = 16,
                          .pages_free = 1000};
      for (int32_t k = 0; k < num_requests[i]; ++k) PlaceOn(i, RequestFor(kBaseModel, rank));
    }
  }
  void PlaceOn(size_t idx, const PlacedRequest& request) {
    fleet_.Place(idx, request);
    fleet_.Draw(idx, request);
    ++fleet_.runner(idx).num_requests;
  }
  void Take(size_t idx, const PlacedRequest& request) {
    fleet_.Leave(idx, request, /*has_drawn=*/true);
    --fleet_.runner(idx).num_requests;
  }
  int32_t Pick(const PlacedRequest& request, std::vector<uint8_t> allowed = {}) {
    return policy_->Pick(fleet_, {.request = request, .allowed = allowed, .now_ns = kSecond});
  }
  void Use(PlacementKind kind, const PlacementOptions& options = {}) {
    PlacementOptions chosen = options;
    chosen.kind = kind;
    policy_ = MakePlacementPolicy(chosen);
  }

  Fleet fleet_;
  std::unique_ptr<PlacementPolicy> policy_;
};

// Section 5.1: the first is full, the third has no memory, so the larger of the others gets it;
// once these are equal, the one with the higher id.
TEST_F(PolicyTest, PunicaFillsTheFullestThatFits) {
  Use(PlacementKind::kPunica);
  MakeFleet({32, 20, 25, 20, 0});
  fleet_.runner(2).pages_free = 2;  // 16 tokens and a page more
  EXPECT_EQ(Pick(RequestFor(1)), 3) << "of two with 20 the higher id";
  PlaceOn(1, RequestFor(1));
  EXPECT_EQ(Pick(RequestFor(1)), 1);
  fleet_.runner(2).pages_free = 3;
  EXPECT_EQ(Pick(RequestFor(1)), 2);
  fleet_.runner(0).batch_max = 33;
  EXPECT_EQ(Pick(RequestFor(1)), 0);
}

TEST_F(PolicyTest, PunicaLetsThemWaitWhereNobodyHasRoom) {
  Use(PlacementKind::kPunica);
  MakeFleet({32, 32});
  EXPECT_EQ(Pick(RequestFor(1)), kNoRunner);
  EXPECT_TRUE(policy_->keeps_order());
  Take(0, RequestFor(kBaseModel));
  EXPECT_EQ(Pick(RequestFor(1)), 0);
}

// Busy ones stay busy, idle ones idle: 40 requests fill one runner before they open the next.
TEST_F(PolicyTest, PunicaLeavesRunnersIdle) {
  Use(PlacementKind::kPunica);
  MakeFleet({0, 0, 0});
  for (int i = 0; i < 40; ++i) {
    const int32_t picked = Pick(RequestFor(1));
    ASSERT_NE(picked, kNoRunner);
    PlaceOn(static_cast<size_t>(picked), RequestFor(1));
  }
  EXPECT_EQ(fleet_.runner(2).num_requests, 32);
  EXPECT_EQ(fleet_.runner(1).num_requests, 8);
  EXPECT_EQ(fleet_.runner(0).num_requests, 0);
}

TEST_F(PolicyTest, MostIdlePrefersWhoHoldsTheAdapterAmongEquals) {
  Use(PlacementKind::kMostIdle);
  MakeFleet({3, 1, 1});
  EXPECT_EQ(Pick(RequestFor(7)), 1);
  fleet_.SetHeld(2, std::vector<int32_t>{7}, true);
  EXPECT_EQ(Pick(RequestFor(7)), 2);
  fleet_.SetHeld(0, std::vector<int32_t>{8}, true);
  EXPECT_EQ(Pick(RequestFor(8)), 1) << "not at the price of load";
  MakeFleet({40, 41});
  EXPECT_EQ(Pick(RequestFor(7)), 0) << "in the line of one, where all are full";
}

TEST_F(PolicyTest, FirstFitTakesTheFirstWithRoom) {
  Use(PlacementKind::kFirstFit);
  MakeFleet({32, 31, 0});
  EXPECT_EQ(Pick(RequestFor(1)), 1);
  fleet_.runner(1).pages_free = 0;
  EXPECT_EQ(Pick(RequestFor(1)), 2);
  MakeFleet({34, 33, 35});
  EXPECT_EQ(Pick(RequestFor(1)), 1) << "where none has room, the most idle";
}

TEST_F(PolicyTest, RandomTakesAllWithRoomAlike) {
  Use(PlacementKind::kRandom);
  MakeFleet({32, 31, 0});
  int num_of[3] = {};
  for (int i = 0; i < 4000; ++i) ++num_of[Pick(RequestFor(1))];
  EXPECT_EQ(num_of[0], 0);
  EXPECT_NEAR(num_of[1], 2000, 150);
  MakeFleet({32, 32});
  EXPECT_NE(Pick(RequestFor(1)), kNoRunner);
}

TEST_F(PolicyTest, RendezvousFollowsTheLargestWeightWithRoom) {
  Use(PlacementKind::kRendezvous);
  MakeFleet({0, 0, 0, 0});
  std::vector<std::pair<uint64_t, int32_t>> order;
  for (int32_t i = 0; i < 4; ++i) {
    order.emplace_back(RendezvousWeight(RequestFor(9).adapter_id, 100 + static_cast<uint64_t>(i)),
                       i);
  }
  std::sort(order.rbegin(), order.rend());
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(Pick(RequestFor(9)), order[i].second);
    fleet_.runner(static_cast<size_t>(order[i].second)).num_requests = 32;
  }
  EXPECT_EQ(Pick(RequestFor(9)), order[0].second) << "in line, where all are full";
}

// A runner that goes moves its own adapters alone, to all others.
TEST_F(PolicyTest, RendezvousMovesOnlyWhatMust) {
  Use(PlacementKind::kRendezvous);
  MakeFleet({0, 0, 0, 0, 0});
  std::vector<int32_t> before;
  for (int32_t adapter = 0; adapter < 500; ++adapter) before.push_back(Pick(RequestFor(adapter)));
  fleet_.runner(2).is_open = false;
  std::set<int32_t> heirs;
  for (int32_t adapter = 0; adapter < 500; ++adapter) {
    const int32_t now = Pick(RequestFor(adapter));
    if (before[static_cast<size_t>(adapter)] == 2) {
      heirs.insert(now);
    } else {
      EXPECT_EQ(now, before[static_cast<size_t>(adapter)]);
    }
  }
  EXPECT_THAT(heirs, testing::ElementsAre(0, 1, 3, 4));
}

// Four adapters of equal load, four runners: each has one, and a runner that holds one keeps it.
TEST_F(PolicyTest, MinCostFlowGivesEqualLoadsARunnerEach) {
  Use(PlacementKind::kMinCostFlow);
  MakeFleet({0, 0, 0, 0});
  for (int32_t adapter = 0; adapter < 4; ++adapter) {
    fleet_.SetHeld(static_cast<size_t>(3 - adapter), std::vector<int32_t>{adapter}, true);
    for (int i = 0; i < 10; ++i) policy_->OnArrival(RequestFor(adapter));
  }
  policy_->Plan(fleet_);
  for (int32_t adapter = 0; adapter < 4; ++adapter) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(Pick(RequestFor(adapter)), 3 - adapter);
  }
}

// One adapter has half of all load, two of four runners' worth: its holder takes one of them.
TEST_F(PolicyTest, MinCostFlowSpreadsABusyAdapter) {
  Use(PlacementKind::kMinCostFlow);
  MakeFleet({0, 0, 0, 0});
  fleet_.SetHeld(0, std::vector<int32_t>{0}, true);
  for (int i = 0; i < 40; ++i) policy_->OnArrival(RequestFor(0));
  for (int32_t adapter = 1; adapter < 5; ++adapter) {
    for (int i = 0; i < 10; ++i) policy_->OnArrival(RequestFor(adapter));
  }
  policy_->Plan(fleet_);
  int num_of[4] = {};
  for (int i = 0; i < 100; ++i) ++num_of[Pick(RequestFor(0))];
  EXPECT_EQ(num_of[0], 50);
  // Each of the others has a quarter of a runner left to give, or more.
  for (int32_t adapter = 1; adapter < 5; ++adapter) EXPECT_NE(Pick(RequestFor(adapter)), 0);
}

// Two adapters of equal load on two runners. Where the one is full its adapter goes to the other;
// where both are, it waits where it is planned.
TEST_F(PolicyTest, MinCostFlowKeepsItsPlanWhereAllAreFull) {
  Use(PlacementKind::kMinCostFlow);
  for (const size_t holder : {0, 1}) {
    MakeFleet({31, 31});
    for (const int32_t adapter : {0, 1}) {
      const size_t at = adapter == 0 ? holder : 1 - holder;
      fleet_.SetHeld(at, std::vector<int32_t>{adapter}, true);
      for (int i = 0; i < 10; ++i) policy_->OnArrival(RequestFor(adapter));
    }
    policy_->Plan(fleet_);
    EXPECT_EQ(Pick(RequestFor(0)), static_cast<int32_t>(holder));
    PlaceOn(holder, RequestFor(0));
    EXPECT_EQ(Pick(RequestFor(0)), static_cast<int32_t>(1 - holder));
    PlaceOn(1 - holder, RequestFor(0));
    EXPECT_EQ(Pick(RequestFor(0)), static_cast<int32_t>(holder));
  }
}

TEST_F(PolicyTest, MinCostFlowHashesWhatItDidNotPlan) {
  Use(PlacementKind::kMinCostFlow);
  MakeFleet({0, 0, 0});
  const int32_t planned_nowhere = Pick(RequestFor(3));
  policy_->Plan(fleet_);
  Use(PlacementKind::kRendezvous);
  EXPECT_EQ(Pick(RequestFor(3)), planned_nowhere);
}

// CaraServe, Figure 5: 24 requests of rank 32 on one, 16 of rank 64 on the other, a new one of rank
// 64. Lines through the figure's two points a kernel: padded 34.8 ms at 24 x 32 = 768 and 35.8 at
// 16 x 64 = 1024, so 31.8 + 1/256 a unit; summed 35.3 and 35.9, so 33.5 + 0.6/256.
class CaraServeFigure5 : public PolicyTest {
 protected:
  void SetUp() override {
    MakeFleet({24, 16});
    for (size_t i = 0; i < 2; ++i) {
      const int32_t num = i == 0 ? 24 : 16;
      for (int32_t k = 0; k < num; ++k) {
        Take(i, RequestFor(kBaseModel));
        PlaceOn(i, RequestFor(kBaseModel, i == 0 ? 32 : 64));
      }
    }
  }
  void UseKernel(bool pads, double slo_ms) {
    PlacementOptions options;
    options.costs.pads = pads;
    options.costs.decode = pads ? CostLine{31.8, 1.0 / 256} : CostLine{33.5, 0.6 / 256};
    options.costs.prompt = {0, 0};
    options.slo_ms = slo_ms;
    Use(PlacementKind::kCaraServe, options);
  }
};

// Padded: 25 x 64 = 1600, 38.05 ms, on the first; 17 x 64 = 1088, 36.05 ms, on the second (the
// figure's points are rounded: its bound of 36 is met there).
TEST_F(CaraServeFigure5, PaddedGoesWhereRanksAreLarge) {
  UseKernel(/*pads=*/true, 36.1);
  EXPECT_EQ(Pick(RequestFor(1, 64)), 1);
  // Without a bound: 24 x (1600 - 768) / 256 = 78 ms there, 16 x 64 / 256 = 4 ms here.
  UseKernel(/*pads=*/true, 1000);
  EXPECT_EQ(Pick(RequestFor(1, 64)), 1);
}

// Summed: 832 is 35.45 ms on the first, 1088 is 36.05 on the second, beyond the bound.
TEST_F(CaraServeFigure5, SummedGoesWhereTheSumIsSmall) {
  UseKernel(/*pads=*/false, 36);
  EXPECT_EQ(Pick(RequestFor(1, 64)), 0);
  // Without a bound: each of 24 loses 0.15 ms there, each of only 16 here.
  UseKernel(/*pads=*/false, 1000);
  EXPECT_EQ(Pick(RequestFor(1, 64)), 1);
  // Where both are beyond it, the penalty is on both sides.
  UseKernel(/*pads=*/false, 35);
  EXPECT_EQ(Pick(RequestFor(1, 64)), 1);
}

TEST_F(CaraServeFigure5, APromptCostsThoseThereToo) {
  PlacementOptions options;
  options.costs.decode = {1, 0};
  options.costs.prompt = {0, 0.5};
  options.slo_ms = 1000;
  Use(PlacementKind::kCaraServe, options);
  EXPECT_EQ(Pick(RequestFor(1, 64)), 1) << "16 wait for it instead of 24";
}

TEST_F(PolicyTest, TheBoundIsOneAndAHalfTimesARowOfRank64) {
  PlacementOptions options;
  options.costs.decode = {10, 0.125};
  EXPECT_DOUBLE_EQ(options.SloMs(), 1.5 * (10 + 8));
  options.slo_ms = 20;
  EXPECT_DOUBLE_EQ(options.SloMs(), 20);
}

// Steps of 10 ms, 1 ms more a row, 0.1 a prompt token, loads of 40 ms; answers of 100 tokens.
class AutoTest : public PolicyTest {
 protected:
  void SetUp() override {
    options_.costs.step_ms = 10;
    options_.costs.step_ms_per_row = 1;
    options_.costs.step_ms_per_unit = 0;
    options_.costs.step_ms_per_prompt_token = 0.1;
    options_.costs.step_ms_per_context_token = 0;
    options_.costs.load_ms = 40;
    options_.costs.load_ms_per_rank = 0;
    options_.slo_ms = 1e6;
  }
  // Runners that have had their requests for long.
  void MakeRunners(const std::vector<int32_t>& num_requests) {
    Use(PlacementKind::kAuto, options_);
    MakeFleet(num_requests);
    for (int i = 0; i < 3000; ++i) fleet_.End(2.0, 100);
  }
  PlacementOptions options_;
};

// A row more costs the requests there 1 x 50 + 1.6, and the new one half of 100 + 1.6, as its
// tokens wait for as many prompts as are there: 102.4 ms. A load is 40, and up to 10 for its place
// in the adapter's order.
TEST_F(AutoTest, GoesToTheAdapterUnlessItIsBusier) {
  for (const size_t holder : {0, 1}) {
    MakeRunners({1, 1});
    fleet_.SetHeld(holder, std::vector<int32_t>{5}, true);
    EXPECT_EQ(Pick(RequestFor(5)), static_cast<int32_t>(holder));
  }
  MakeRunners({2, 1});
  fleet_.SetHeld(0, std::vector<int32_t>{5}, true);
  EXPECT_EQ(Pick(RequestFor(5)), 1);
}

// A fourth copy takes the place of an adapter that is asked for: that is missed once, and thrice
// more for a copy beyond the one that the load fills. Five loads, 200 to 210 ms: one row less is
// not worth it, three are. A load that fills three runners wants three copies, so that the fourth
// costs three loads, 120 to 130: two rows less are.
TEST_F(AutoTest, CopiesAreBoundedByTheLoadAndGrowWithIt) {
  const auto make = [&](int32_t rows) {
    MakeRunners({rows, rows, rows, 1});
    for (const size_t i : {0, 1, 2}) fleet_.SetHeld(i, std::vector<int32_t>{5}, true);
    fleet_.runner(3).adapters_max = 1;
    fleet_.SetHeld(3, std::vector<int32_t>{6}, true);
    for (int i = 0; i < 30; ++i) fleet_.Arrive(6, kSecond);
  };
  make(2);
  EXPECT_NE(Pick(RequestFor(5)), 3);
  make(4);
  EXPECT_EQ(Pick(RequestFor(5)), 3);
  // 16.5 a second for 2 seconds each: 33 at once, of 16 that half a batch is.
  for (const int32_t rows : {2, 3}) {
    make(rows);
    for (int i = 0; i < 495; ++i) fleet_.Arrive(5, kSecond);
    EXPECT_EQ(Pick(RequestFor(5)) == 3, rows == 3);
  }
}

// Two runners with a row each. A prompt stalls what came just now eightfold, so they take turns;
// the copy for one of them is then worth its 40 to 50 ms less than 8 x 10 for a prompt of 100
// tokens.
TEST_F(AutoTest, PromptsComeOneAfterTheOther) {
  MakeRunners({1, 1});
  fleet_.SetHeld(0, std::vector<int32_t>{5}, true);
  PlacedRequest request = RequestFor(5);
  request.prompt_tokens = 100;
  EXPECT_EQ(Pick(request), 0);
  EXPECT_EQ(Pick(request), 1);
}

// A third row is 13 ms a token, beyond the bound of 12.5, which two rows keep to. To keep below it
// is worth more than the load.
TEST_F(AutoTest, KeepsTokensBelowTheBound) {
  options_.costs.load_ms = 150;
  options_.costs.step_ms_per_prompt_token = 0;
  for (const double slo_ms : {1e6, 12.5}) {
    options_.slo_ms = slo_ms;
    MakeRunners({2, 1});
    fleet_.SetHeld(0, std::vector<int32_t>{5}, true);
    EXPECT_EQ(Pick(RequestFor(5)), slo_ms == 12.5 ? 1 : 0);
  }
}

// One runner has 4 requests of another rank, the other 9 of its own. By steps alone 4 are cheaper:
// 136 and 152 ms for a larger rank, 72 and 76 for a smaller one. Padding adds 480 and 120 ms there.
TEST_F(AutoTest, KeepsRanksApartWhereKernelsPad) {
  options_.costs.step_ms_per_row = options_.costs.step_ms_per_prompt_token = 0;
  options_.costs.step_ms_per_unit = 0.01;
  for (const bool pads : {false, true}) {
    options_.costs.pads = pads;
    for (const auto& [own, other] : {std::pair(16, 8), std::pair(8, 16)}) {
      MakeRunners({0, 0});
      for (int i = 0; i < 4; ++i) PlaceOn(0, RequestFor(kBaseModel, other));
      for (int i = 0; i < 9; ++i) PlaceOn(1, RequestFor(kBaseModel, own));
      EXPECT_EQ(Pick(RequestFor(kBaseModel, own)), pads ? 1 : 0) << own;
    }
  }
}

// Four loads are under way at once: one that comes behind four others waits for them, eightfold.
TEST_F(AutoTest, LoadsSpreadOverRunners) {
  MakeRunners({1, 1});
  options_.costs.load_ms = 1000;
  for (int32_t adapter = 10; adapter < 14; ++adapter) fleet_.Place(0, RequestFor(adapter));
  fleet_.runner(0).num_requests = 5;
  fleet_.runner(1).num_requests = 8;
  Use(PlacementKind::kAuto, options_);
  EXPECT_EQ(Pick(RequestFor(5)), 1);
  for (int32_t adapter = 10; adapter < 14; ++adapter) fleet_.Draw(0, RequestFor(adapter));
  EXPECT_EQ(Pick(RequestFor(6)), 0) << "they have come, and it has fewer requests";
}

// Its places are all in use: it waits until one is free.
TEST_F(AutoTest, CountsWhoWaitsForPlaces) {
  MakeRunners({1, 3});
  fleet_.runner(0).adapters_max = 2;
  for (const int32_t adapter : {1, 2}) PlaceOn(0, RequestFor(adapter));
  EXPECT_EQ(Pick(RequestFor(5)), 1);
  fleet_.Leave(0, RequestFor(1), /*has_drawn=*/true);
  --fleet_.runner(0).num_requests;
  EXPECT_EQ(Pick(RequestFor(6)), 0);
}

// To open the idle one costs 1 % of a request's 1,001 ms alone. Two rows cost 3 ms where a row is
// 0.01 ms, and 300 where it is 1.
TEST_F(AutoTest, LeavesRunnersIdleWhereNobodyWouldNotice) {
  options_.costs.step_ms_per_row = 0.01;
  options_.costs.step_ms_per_prompt_token = 0;
  Use(PlacementKind::kAuto, options_);
  MakeRunners({2, 0});
  EXPECT_EQ(Pick(RequestFor(kBaseModel)), 0);
  options_.costs.step_ms_per_row = 1;
  Use(PlacementKind::kAuto, options_);
  EXPECT_EQ(Pick(RequestFor(kBaseModel)), 1);
}

// A prompt of 400 tokens is 40 ms of one's own and those there. With 3 of 4 pages cached it is 10.
TEST_F(AutoTest, GoesWhereItsPromptIsCachedUnlessThatIsBusier) {
  PlacedRequest request = RequestFor(kBaseModel);
  request.prompt_tokens = 400;
  request.prefix = PrefixNames(EmptyPrefixName("t", "", 0, 100), std::vector<int32_t>(400), 100, 9);
  const auto make = [&](std::vector<int32_t> rows) {
    MakeRunners(rows);
    for (size_t i = 0; i < 2; ++i) fleet_.runner(i).page_tokens = 100;
  };
  for (const size_t holder : {0, 1}) {
    make({1, 1});
    fleet_.prefixes().Add(holder, std::span(request.prefix).first(3));
    EXPECT_EQ(Pick(request), static_cast<int32_t>(holder));
  }
  make({4, 1});
  fleet_.prefixes().Add(0, std::span(request.prefix).first(3));
  EXPECT_EQ(Pick(request), 1) << "three rows more cost 150 ms";
  EXPECT_EQ(fleet_.CachedTokensOn(0, request), 300);
  fleet_.prefixes().Add(0, request.prefix);
  EXPECT_EQ(fleet_.CachedTokensOn(0, request), 399) << "the last token is computed anyway";
}

// The same where the time of prompts lies in their length or in their rank, and none in their
// tokens.
TEST_F(AutoTest, PromptsCostWhateverPartOfTheCostsTheirTimeLiesIn) {
  options_.costs.step_ms_per_prompt_token = 0;
  PlacedRequest request = RequestFor(kBaseModel, 64);
  request.prompt_tokens = 400;
  request.prefix = PrefixNames(EmptyPrefixName("t", "", 0, 100), std::vector<int32_t>(400), 100, 9);
  for (double CostModel::*const cost :
       {&CostModel::step_ms_per_prompt_pair, &CostModel::step_ms_per_prompt_unit}) {
    PlacementOptions options = options_;
    options.costs.*cost = cost == &CostModel::step_ms_per_prompt_pair ? 0.0005 : 0.0016;
    for (const size_t holder : {0, 1}) {
      options_.costs = options.costs;
      MakeRunners({1, 1});
      for (size_t i = 0; i < 2; ++i) fleet_.runner(i).page_tokens = 100;
      fleet_.prefixes().Add(holder, std::span(request.prefix).first(3));
      EXPECT_EQ(Pick(request), static_cast<int32_t>(holder));
      // Both runners have the same requests, but one still has a prompt to compute.
      MakeRunners({1, 1});
      PlacedRequest other = request;
      other.prefix.clear();
      fleet_.Place(holder, other);
      ++fleet_.runner(holder).num_requests;
      PlaceOn(1 - holder, other);
      EXPECT_EQ(Pick(other), static_cast<int32_t>(1 - holder));
    }
    options_.costs.*cost = 0;
  }
}

// Ages are counted in steps, also by costs that have no time of a step itself.
TEST_F(AutoTest, CostsMayHaveNoTimeOfAStepItself) {
  options_.costs.step_ms = 0;
  MakeRunners({1, 1});
  const PlacedRequest request = RequestFor(kBaseModel);
  const int32_t first = Pick(request);
  const PlacementQuery later = {.request = request, .now_ns = kSecond + 1000};
  EXPECT_NE(policy_->Pick(fleet_, later), first) << "who came just before counts still";
}

TEST_F(AutoTest, WaitsForNobodyWhereThereIsRoom) {
  MakeRunners({32, 31});
  fleet_.SetHeld(0, std::vector<int32_t>{5}, true);
  EXPECT_EQ(Pick(RequestFor(5)), 1) << "a full batch";
  MakeRunners({3, 3});
  fleet_.SetHeld(0, std::vector<int32_t>{5}, true);
  fleet_.runner(0).pages_free = 1;
  EXPECT_EQ(Pick(RequestFor(5)), 1) << "no pages";
}

// An adapter that is thrown out is missed by its rate: not at all where no request asks for it, as
// much as another copy where it is busy.
TEST_F(AutoTest, SparesWhatIsAskedFor) {
  for (const size_t busy : {0, 1}) {
    MakeRunners({1, 1});
    for (const size_t i : {0, 1}) {
      fleet_.runner(i).adapters_max = 1;
      fleet_.SetHeld(i, std::vector<int32_t>{static_cast<int32_t>(10 + i)}, true);
    }
    for (int i = 0; i < 20; ++i) fleet_.Arrive(static_cast<int32_t>(10 + busy), kSecond);
    EXPECT_EQ(Pick(RequestFor(5)), static_cast<int32_t>(1 - busy));
  }
}

// The tenant has 11 of 12 in flight, its share is half: others' time counts 1.83 times. So it goes
// where it bears the delay itself, though it is as full there.
TEST_F(AutoTest, ATenantBeyondItsShareBurdensItself) {
  PlacedRequest greedy = RequestFor(kBaseModel), modest = RequestFor(kBaseModel);
  greedy.tenant = 1;
  modest.tenant = 2;
  for (const size_t burdened : {0, 1}) {
    MakeRunners({0, 0});
    for (int i = 0; i < 6; ++i) PlaceOn(burdened, greedy);
    for (int i = 0; i < 6; ++i) PlaceOn(1 - burdened, i < 5 ? greedy : modest);
    EXPECT_EQ(Pick(greedy), static_cast<int32_t>(burdened));
  }
}

TEST_F(PolicyTest, NobodyIsWhereNobodyMayGo) {
  for (const PlacementName& one : kPlacementNames) {
    Use(one.kind);
    MakeFleet({1, 2, 3});
    EXPECT_EQ(Pick(RequestFor(1), {0, 0, 0}), kNoRunner) << one.name;
    EXPECT_EQ(Pick(RequestFor(1), {0, 1, 0}), 1) << one.name;
    fleet_.runner(1).is_open = false;
    EXPECT_EQ(Pick(RequestFor(1), {0, 1, 0}), kNoRunner) << one.name;
    fleet_ = Fleet();
    EXPECT_EQ(Pick(RequestFor(1)), kNoRunner) << one.name << ", of no runners";
  }
}

}  // namespace
}  // namespace graft
