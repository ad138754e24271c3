#include "engine/fair_line.h"

#include <gtest/gtest.h>

namespace graft {
namespace {

class FairLineTest : public testing::Test {
 protected:
  // A request that waits; its id is its place in the order of arrival.
  Sequence& Add(const std::string& tenant, const std::string& key = "", int32_t priority = 0,
                float weight = 1.0f) {
    auto sequence = std::make_unique<Sequence>();
    Sequence& added = *sequence;
    added.id = ++last_id_;
    added.order = {.arrival_ns = static_cast<int64_t>(last_id_), .number = last_id_};
    added.tenant = tenant;
    added.key_id = key;
    added.priority = priority;
    added.tenant_weight = weight;
    line_.Add(std::move(sequence));
    return added;
  }
  // Those that a plan would begin, in order, each of which has so many rows.
  std::vector<uint64_t> Begin(int32_t num_rows, size_t count = 1000) {
    line_.BeginPlan();
    line_.BeginWalk(/*has_place=*/true);
    std::vector<uint64_t> ids;
    while (ids.size() < count) {
      Sequence* const next = line_.Next();
      if (next == nullptr) break;
      ids.push_back(next->id.number);
      line_.AddRows(*next, num_rows);
      Run(*next);
    }
    EXPECT_TRUE(line_.CheckIntegrity().ok()) << line_.CheckIntegrity().ToString();
    return ids;
  }
  void Run(Sequence& sequence) {
    running_.push_back(line_.Take(sequence));
    sequence.sequence_slot = static_cast<int32_t>(running_.size());
    line_.CountRunning(sequence, 1);
  }
  void End(Sequence& sequence) {
    line_.CountRunning(sequence, -1);
    line_.Leave(sequence);
  }

  FairLine line_;
  FairLine::List running_;
  uint64_t last_id_ = 0;
};

using Order = std::vector<uint64_t>;

TEST_F(FairLineTest, OneTenantIsServedInOrderOfArrival) {
  for (int i = 0; i < 5; ++i) Add("a");
  EXPECT_EQ(Begin(100), Order({1, 2, 3, 4, 5}));
}

TEST_F(FairLineTest, TenantsTakeTurnsByRowsNotByRequests) {
  for (int i = 0; i < 4; ++i) Add("a");
  Sequence& b = Add("b");
  Add("b");
  line_.Charge(b, 150);  // b is one request and a half ahead
  EXPECT_EQ(Begin(100), Order({1, 2, 5, 3, 6, 4}));
}

TEST_F(FairLineTest, SomeAreLookedAtOfEveryTenant) {
  for (int i = 0; i < 20; ++i) Add("a", i % 2 == 0 ? "x" : "y");
  for (int i = 0; i < 3; ++i) Add("b");  // 21 to 23
  Run(Add("c"));
  const auto looked_at = [this](int32_t num_max) {
    Order ids;
    line_.ForSome(num_max, [&ids](const Sequence& one) { ids.push_back(one.id.number); });
    return ids;
  };
  EXPECT_EQ(looked_at(4), Order({1, 3, 21, 22}));
  EXPECT_EQ(looked_at(1), Order({1}));
  EXPECT_EQ(looked_at(0), Order());
  EXPECT_EQ(looked_at(1000).size(), 23u);
  EXPECT_EQ(Begin(1).size(), 23u) << "none was taken";
}

// Service is booked later, except for a sequence that leaves.
TEST_F(FairLineTest, WhoLeavesTakesNobodysPlaceInTime) {
  std::vector<Sequence*> runs;
  for (const char* const tenant : {"a", "b", "c", "d"}) {
    runs.push_back(&Add(tenant));
    Run(*runs.back());
  }
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < runs.size(); ++i) line_.Charge(*runs[i], 10 + static_cast<int>(i));
  }
  for (const char* const tenant : {"d", "c", "b", "a"}) Add(tenant);  // 5, 6, 7, 8
  for (Sequence* const one : runs) line_.Charge(*one, one == runs[0] ? 100 : 1);
  End(*runs[1]);
  line_.Charge(*runs[3], 50);
  End(*runs[3]);
  EXPECT_EQ(Begin(1000), Order({7, 6, 5, 8})) << "b 34, c 37, d 90, a 130";
}

TEST_F(FairLineTest, AWeightOfTwoHasTwoTurns) {
  for (int i = 0; i < 3; ++i) Add("a");
  for (int i = 0; i < 4; ++i) Add("b", "", 0, 2.0f);
  EXPECT_EQ(Begin(100), Order({1, 4, 5, 2, 6, 7, 3}));
}

TEST_F(FairLineTest, KeysOfATenantTakeTurns) {
  Sequence& flood = Add("a", "flood");
  for (int i = 0; i < 3; ++i) Add("a", "flood");
  Add("a", "other");
  line_.Charge(flood, 10);
  Add("b");
  // First the key of a that was served less; then b, and a's first key again.
  EXPECT_EQ(Begin(5, 3), Order({5, 6, 1}));
}

TEST_F(FairLineTest, PriorityCountsWithinAKeyAlone) {
  Add("a");
  Add("a", "", 5);
  Add("b", "", -1);
  Add("b", "", 9);
  Add("a", "", 5);
  EXPECT_EQ(Begin(100), Order({2, 4, 5, 3, 1}));
}

TEST_F(FairLineTest, WhoRunsLessIsFirstWhereServiceIsEqual) {
  Sequence& running = Add("a");
  Run(running);
  Add("a");
  Add("b");
  EXPECT_EQ(Begin(100), Order({3, 2}));
}

TEST_F(FairLineTest, PromptsThatWereBegunGoOnBeforeOthersOfTheirKeyBegin) {
  Sequence& begun = Add("a");
  Run(begun);
  Add("a");
  Sequence& urgent = Add("a", "", 1);
  line_.BeginPlan();
  line_.OfferPrefill(begun);
  line_.BeginWalk(true);
  EXPECT_EQ(line_.Next(), &urgent);
  line_.Pass(urgent);
  EXPECT_EQ(line_.Next(), &begun);
  line_.Pass(begun);
  EXPECT_EQ(line_.Next()->id.number, 2u);
}

TEST_F(FairLineTest, AWalkGoesOnWhereItWas) {
  for (int i = 0; i < 3; ++i) Add("a");
  line_.BeginPlan();
  line_.BeginWalk(true);
  line_.Pass(*line_.Next());
  Add("b");
  line_.BeginWalk(true);
  EXPECT_EQ(line_.Next()->id.number, 2u);
  line_.PassTenant();
  // Its tenant is asked again behind the others.
  line_.BeginPlan();
  line_.BeginWalk(true);
  EXPECT_EQ(line_.Next()->id.number, 1u);
}

TEST_F(FairLineTest, WithoutAPlaceOnlyThoseWhoMayTakeOneAreNext) {
  Run(Add("a"));
  Run(Add("a"));
  Add("a");
  line_.BeginPlan();
  line_.BeginWalk(/*has_place=*/false);
  EXPECT_EQ(line_.Next(), nullptr);
  EXPECT_FALSE(line_.CouldTakePlace());
  Sequence& b = Add("b");
  EXPECT_TRUE(line_.CouldTakePlace());
  line_.BeginWalk(/*has_place=*/false);
  EXPECT_EQ(line_.Next(), &b);
  EXPECT_EQ(line_.GiverOfPlace(line_.TenantOf(b))->name, "a");
  Run(b);
  EXPECT_FALSE(line_.CouldTakePlace());
}

TEST_F(FairLineTest, APlaceIsNotTakenBack) {
  for (int i = 0; i < 3; ++i) Run(Add("a"));
  Run(Add("b"));
  Add("b");
  Add("a");
  // 3 to 1: b may have one of a's, after which neither may.
  EXPECT_TRUE(line_.CouldTakePlace());
  End(*running_.front());
  Run(*line_.NewestOf("b"));
  EXPECT_FALSE(line_.CouldTakePlace());
}

TEST_F(FairLineTest, TenantsAreForgotten) {
  Sequence& stays = Add("stays");
  Run(stays);
  for (int i = 0; i < 1000; ++i) {
    Sequence& one = Add("tenant " + std::to_string(i), std::to_string(i));
    Run(one);
    line_.Charge(stays, 1);
    End(one);
  }
  EXPECT_LT(line_.num_tenants_known(), 100u);
  End(stays);
  Add("last");
  EXPECT_EQ(line_.num_tenants_known(), 1u);
}

TEST_F(FairLineTest, TakesOutWhoIsMeantInOrderOfArrival) {
  for (const char* const tenant : {"a", "b", "a", "c", "b"}) Add(tenant);
  FairLine::List taken = line_.TakeIf([](const Sequence& one) { return one.tenant != "c"; });
  Order ids;
  for (const auto& sequence : taken) {
    ids.push_back(sequence->id.number);
    line_.Leave(*sequence);
  }
  EXPECT_EQ(ids, Order({1, 2, 3, 5}));
  EXPECT_EQ(line_.size(), 1u);
  EXPECT_TRUE(line_.CheckIntegrity().ok());
}

}  // namespace
}  // namespace graft
