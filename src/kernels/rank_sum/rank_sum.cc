#include "kernels/rank_sum/rank_sum.h"

#include "base/check.h"
#include "tensor/device.h"

namespace graft {

void MeetRanksCuda(const RankBlocks& ranks, Stream& stream);
void ShareRankTokensCuda(const RankTokensArgs& args, Stream& stream);
void RankSumCuda(const RankSumArgs& args, Stream& stream);
void RankGatherCuda(const RankGatherArgs& args, Stream& stream);

namespace {

// What both meetings of a sum, and the launch between them, must save: at 300 GB/s of a link.
constexpr int64_t kSecondMeetingBytes = int64_t{3} << 19;

void Check(const RankBlocks& ranks, const Stream& stream) {
  CHECK(kHasCuda && !stream.device.is_cpu()) << "ranks on a CPU have a Communicator";
  CHECK(ranks.num_ranks >= 1 && ranks.num_ranks <= kGpuRanksMax) << ranks.num_ranks;
  CHECK(ranks.rank >= 0 && ranks.rank < ranks.num_ranks) << ranks.rank;
  CHECK(!ranks.meets || (ranks.broken != nullptr && ranks.late != nullptr && ranks.timeout_ns > 0));
  for (int32_t rank = 0; rank < ranks.num_ranks; ++rank) CHECK(ranks.blocks[rank] != nullptr);
}

}  // namespace

int RankSumMeetings(int64_t n, int32_t num_ranks) {
  const int64_t bytes = n * int64_t{sizeof(float)};
  const int64_t saved = bytes * (num_ranks - 1) * (num_ranks - 2) / num_ranks;
  return saved > kSecondMeetingBytes ? 2 : 1;
}

void MeetRanks(const RankBlocks& ranks, Stream& stream) {
  Check(ranks, stream);
  if constexpr (kHasCuda) MeetRanksCuda(ranks, stream);
}

void ShareRankTokens(const RankTokensArgs& args, Stream& stream) {
  Check(args.ranks, stream);
  CHECK(args.block_begin >= kRankWordsBytes && args.n >= 0);
  if constexpr (kHasCuda) ShareRankTokensCuda(args, stream);
}

void RankSum(const RankSumArgs& args, Stream& stream) {
  Check(args.ranks, stream);
  CHECK(args.part_begin % 16 == 0 && args.sums_begin % 16 == 0);
  if constexpr (kHasCuda) RankSumCuda(args, stream);
}

void RankGather(const RankGatherArgs& args, Stream& stream) {
  Check(args.ranks, stream);
  CHECK(args.part_begin % 16 == 0 && args.vocab_size >= args.ranks.num_ranks);
  if constexpr (kHasCuda) RankGatherCuda(args, stream);
}

}  // namespace graft
