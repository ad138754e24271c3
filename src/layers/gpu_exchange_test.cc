#include "layers/gpu_exchange.h"

#include <gtest/gtest.h>

#include <string>

namespace graft {
namespace {

using Made = Result<std::unique_ptr<RankExchange>>;

// What a machine with so many GPUs can do; the number of ranks of an exchange says which it is.
constexpr int32_t kByPeers = 2, kByNccl = 3;

Made Works(int32_t num_ranks) {
  return MakeModelledExchange(num_ranks, Device{}, {.part_floats = 8, .tokens_max = 1}, {});
}
Made NoPeers() {
  return FailedPreconditionError(
      "rank 0 (cuda:0) and rank 1 (cuda:1) do not reach each other's memory");
}
Made NoNccl() { return FailedPreconditionError("NCCL is not there"); }

const ExchangeMakers kBoth = {[] { return Works(kByPeers); }, [] { return Works(kByNccl); }};
const ExchangeMakers kPeersAlone = {[] { return Works(kByPeers); }, NoNccl};
const ExchangeMakers kNcclAlone = {NoPeers, [] { return Works(kByNccl); }};
const ExchangeMakers kNeither = {NoPeers, NoNccl};

int32_t Taken(RankTransport transport, const ExchangeMakers& makers) {
  const Made made = FirstExchange(transport, makers);
  return made.ok() ? (*made)->num_ranks() : 0;
}

TEST(GpuExchangeTest, GpusThatReachEachOtherUseTheirMemory) {
  EXPECT_EQ(Taken(RankTransport::kAuto, kBoth), kByPeers);
  EXPECT_EQ(Taken(RankTransport::kAuto, kPeersAlone), kByPeers);
  EXPECT_EQ(Taken(RankTransport::kPeer, kBoth), kByPeers);
}

TEST(GpuExchangeTest, GpusThatDoNotTakeNccl) {
  EXPECT_EQ(Taken(RankTransport::kAuto, kNcclAlone), kByNccl);
  EXPECT_EQ(Taken(RankTransport::kNccl, kBoth), kByNccl);
}

// The ranks agree on what they ask for: one that tried something else would wait for ever.
TEST(GpuExchangeTest, WhatWasAskedForIsTriedAlone) {
  int asked = 0;
  const ExchangeMakers counting = {[&] { return ++asked, NoPeers(); },
                                   [&] { return asked += 10, NoNccl(); }};
  EXPECT_FALSE(FirstExchange(RankTransport::kPeer, counting).ok());
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(FirstExchange(RankTransport::kNccl, counting).ok());
  EXPECT_EQ(asked, 11);
  EXPECT_FALSE(FirstExchange(RankTransport::kAuto, counting).ok());
  EXPECT_EQ(asked, 22);
}

TEST(GpuExchangeTest, WhereNeitherWorksBothReasonsAreNamed) {
  const Status status = FirstExchange(RankTransport::kAuto, kNeither).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "rank 0 (cuda:0) and rank 1 (cuda:1) do not reach each other's memory, and NCCL is not "
            "there");
  EXPECT_EQ(FirstExchange(RankTransport::kPeer, kNcclAlone).status().message(),
            NoPeers().status().message());
  EXPECT_EQ(FirstExchange(RankTransport::kNccl, kPeersAlone).status().message(),
            "NCCL is not there");
}

}  // namespace
}  // namespace graft
