// All policies over random clusters and lives of requests: where they place it fits, nothing that
// is counted gets lost, and the same calls give the same choices.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.h"
#include "placement/policy.h"

namespace graft {
namespace {

constexpr int32_t kNumAdapters = 60;

// Whether runners with room come before those without, whatever else differs. The most idle runner
// has the most room as a rule; auto weighs the wait against all else.
bool FillsFirst(PlacementKind kind, int32_t adapter) {
  if (kind == PlacementKind::kMostIdle || kind == PlacementKind::kAuto) return false;
  const bool hashes = kind == PlacementKind::kRendezvous || kind == PlacementKind::kMinCostFlow;
  return !hashes || adapter != kBaseModel;
}

// A cluster that lives by random events, placing by one policy.
class RandomCluster {
 public:
  RandomCluster(PlacementKind kind, uint64_t seed) : kind_(kind), random_(seed) {
    PlacementOptions options;
    options.kind = kind;
    options.costs.pads = random_.Below(2) == 0;
    options.seed = seed;
    policy_ = MakePlacementPolicy(options);
    fleet_.SetNumRunners(1 + random_.Below(12));
    for (size_t i = 0; i < fleet_.num_runners(); ++i) OpenRunner(i);
  }

  // One event; the choice, if it was one.
  int32_t Step() {
    now_ns_ += static_cast<int64_t>(random_.Below(200'000'000));
    const uint64_t what = random_.Below(100);
    if (what < 55) return PlaceOne();
    if (what < 90) {
      EndOne();
    } else if (what < 94) {
      policy_->Plan(fleet_);
    } else if (what < 97) {
      std::vector<int32_t> held;
      for (uint64_t n = random_.Below(6); n > 0; --n) {
        held.push_back(static_cast<int32_t>(random_.Below(kNumAdapters)));
      }
      fleet_.SetHeld(random_.Below(fleet_.num_runners()), held, random_.Below(2) == 0);
    } else {
      CloseOrOpen(random_.Below(fleet_.num_runners()));
    }
    return kNoRunner;
  }

  void CheckCounts() const {
    for (size_t i = 0; i < fleet_.num_runners(); ++i) {
      int64_t num = 0, sum = 0, undrawn = 0, prompts = 0;
      int32_t largest = 0;
      std::map<uint64_t, int> tenants;
      for (const Live& live : live_) {
        if (live.runner != i) continue;
        ++num;
        ++tenants[live.request.tenant];
        sum += live.request.rank;
        prompts += live.request.prompt_tokens;
        largest = std::max(largest, live.request.rank);
        if (!live.has_drawn) undrawn += live.request.prompt_tokens;
        EXPECT_TRUE(fleet_.Holds(i, live.request.adapter));
      }
      EXPECT_EQ(fleet_.runner(i).num_requests, num);
      EXPECT_EQ(fleet_.RanksOf(i).num_requests, num);
      EXPECT_EQ(fleet_.RanksOf(i).sum, sum);
      EXPECT_EQ(fleet_.RanksOf(i).largest, largest);
      EXPECT_EQ(fleet_.UndrawnPromptTokens(i), undrawn);
      EXPECT_EQ(fleet_.PromptTokensOf(i), static_cast<double>(prompts));
      EXPECT_LE(fleet_.NumComing(i), num);
      for (uint64_t tenant = 0; tenant < 4; ++tenant) {
        const auto counts = fleet_.TenantRequests(tenant);
        const auto here = std::ranges::find(counts, static_cast<int32_t>(i), &RunnerCount::runner);
        EXPECT_EQ(here == counts.end() ? 0 : here->count, tenants[tenant]);
      }
      const int32_t leaving = fleet_.FirstToGo(i);
      EXPECT_TRUE(leaving == kBaseModel || fleet_.Holds(i, leaving));
    }
    for (int32_t adapter = 0; adapter < kNumAdapters; ++adapter) {
      const auto holders = fleet_.Holders(adapter);
      EXPECT_TRUE(std::is_sorted(holders.begin(), holders.end()));
      for (size_t i = 0; i < fleet_.num_runners(); ++i) {
        EXPECT_EQ(std::ranges::count(holders, static_cast<int32_t>(i)),
                  fleet_.Holds(i, adapter) ? 1 : 0);
      }
    }
  }

 private:
  struct Live {
    size_t runner = 0;
    PlacedRequest request;
    bool has_drawn = false;
  };

  void OpenRunner(size_t idx) {
    fleet_.runner(idx) = {.id = random_.Bits(),
                          .is_open = true,
                          .batch_max = static_cast<int32_t>(random_.Below(6)),
                          .adapters_max = static_cast<int32_t>(random_.Below(5)),
                          .page_tokens = random_.Below(3) == 0 ? 0 : 16,
                          .pages_free = static_cast<int64_t>(random_.Below(12))};
  }

  int32_t PlaceOne() {
    PlacedRequest request;
    request.adapter = static_cast<int32_t>(random_.Below(kNumAdapters + 1)) - 1;
    request.adapter_id = static_cast<uint64_t>(request.adapter + 1) * 77;
    request.rank = request.adapter < 0 ? 0 : 8 << (request.adapter % 4);
    request.tenant = random_.Below(4);
    request.tenant_weight = 1.0f + static_cast<float>(request.tenant);
    request.prompt_tokens = static_cast<int32_t>(random_.Below(100));
    request.output_tokens_max = static_cast<int32_t>(random_.Below(200));
    std::vector<uint8_t> allowed(fleet_.num_runners());
    for (uint8_t& one : allowed) one = random_.Below(4) > 0;
    policy_->OnArrival(request);
    fleet_.Arrive(request.adapter, now_ns_);
    const PlacementQuery query = {request, allowed, now_ns_};
    const int32_t picked = policy_->Pick(fleet_, query);
    bool anybody_has_room = false, anybody_can = false;
    for (size_t i = 0; i < fleet_.num_runners(); ++i) {
      anybody_has_room |= HasRoom(fleet_, i, query);
      anybody_can |= CanServe(fleet_, i, query);
    }
    if (picked == kNoRunner) {
      EXPECT_FALSE(policy_->keeps_order() ? anybody_has_room : anybody_can);
      return picked;
    }
    const auto idx = static_cast<size_t>(picked);
    EXPECT_TRUE(CanServe(fleet_, idx, query)) << "it is closed, or not allowed";
    if (FillsFirst(kind_, request.adapter)) {
      EXPECT_TRUE(HasRoom(fleet_, idx, query) || !anybody_has_room);
    }
    fleet_.Place(idx, request);
    ++fleet_.runner(idx).num_requests;
    live_.push_back({idx, request, false});
    return picked;
  }

  void EndOne() {
    if (live_.empty()) return;
    const size_t which = random_.Below(live_.size());
    Live& live = live_[which];
    if (!live.has_drawn && random_.Below(4) > 0) {
      live.has_drawn = true;
      fleet_.Draw(live.runner, live.request);
      return;
    }
    Remove(which);
    fleet_.End(random_.Uniform() * 5, static_cast<int64_t>(random_.Below(300)));
  }

  void Remove(size_t which) {
    const Live live = live_[which];
    fleet_.Leave(live.runner, live.request, live.has_drawn);
    --fleet_.runner(live.runner).num_requests;
    live_.erase(live_.begin() + static_cast<int64_t>(which));
  }

  void CloseOrOpen(size_t idx) {
    if (!fleet_.runner(idx).is_open) return OpenRunner(idx);
    for (size_t i = live_.size(); i > 0; --i) {
      if (live_[i - 1].runner == idx) Remove(i - 1);
    }
    fleet_.Reset(idx);
  }

  const PlacementKind kind_;
  Random random_;
  Fleet fleet_;
  std::unique_ptr<PlacementPolicy> policy_;
  std::vector<Live> live_;
  int64_t now_ns_ = 0;
};

class PolicyPropertyTest : public testing::TestWithParam<PlacementName> {};

TEST_P(PolicyPropertyTest, PlacesWhereItFitsAndCountsRight) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RandomCluster cluster(GetParam().kind, seed);
    for (int step = 0; step < 300; ++step) {
      cluster.Step();
      if (step % 10 == 0) cluster.CheckCounts();
      ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed << ", step " << step;
    }
  }
}

TEST_P(PolicyPropertyTest, TheSameSeedGivesTheSameChoices) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    RandomCluster one(GetParam().kind, seed), other(GetParam().kind, seed);
    for (int step = 0; step < 500; ++step) ASSERT_EQ(one.Step(), other.Step()) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, PolicyPropertyTest, testing::ValuesIn(kPlacementNames),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace graft
