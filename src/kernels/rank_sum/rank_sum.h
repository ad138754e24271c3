// What the ranks of a model on several GPUs do with each other's memory: they meet, and read what
// the others wrote before. A rank's block is a stretch of its GPU's memory that all ranks map; the
// first kRankWordsBytes of it are for the meetings and zeroed at first. All ranks launch the same
// calls in the same order, as often as they like from a CapturedGraph. A kernel that waits for a
// rank which does not come gives up after a while, and so do all after it: what they compute means
// nothing then.
//
// Sums are formed in the order of the ranks, element by element, in fp32. So their bits depend on
// the number of ranks alone: not on how many numbers are summed at once, and on no rank.
//
// Source: one-shot and two-shot all-reduce over peers' memory, as vLLM's and TensorRT-LLM's custom
// all-reduce have it.
#pragma once

#include <cstdint>

#include "tensor/stream.h"

namespace graft {

inline constexpr int32_t kGpuRanksMax = 16;
inline constexpr int64_t kRankWordsBytes = 4096;

struct RankBlocks {
  int32_t rank = 0;
  int32_t num_ranks = 1;
  // The ranks' blocks, at the addresses where this rank's GPU finds them. On borders of 256 bytes.
  char* blocks[kGpuRanksMax] = {};
  // False: what the ranks wrote is there already, all of it in this GPU's own memory.
  bool meets = true;
  // `broken` and `late` are words of the host that the GPU finds at the same address. Once *broken
  // is not 0, this rank waits for no other rank any more.
  const uint32_t* broken = nullptr;
  // Becomes 1 + the rank that did not come within timeout_ns.
  uint32_t* late = nullptr;
  int64_t timeout_ns = 0;
};

// Waits for all ranks. What each wrote into its block by kernels before may be read by all others
// in kernels after this.
void MeetRanks(const RankBlocks& ranks, Stream& stream);

struct RankTokensArgs {
  RankBlocks ranks;
  const int32_t* tokens = nullptr;  // [n], read on rank 0
  int64_t n = 0;
  int64_t block_begin = 0;  // where they come to lie in rank 0's block, in bytes
};
// Rank 0's tokens into its block; all meet.
void ShareRankTokens(const RankTokensArgs& args, Stream& stream);

struct RankSumArgs {
  RankBlocks ranks;
  int64_t part_begin = 0;  // of fp32 [n] in each block, in bytes, on a border of 16
  int64_t sums_begin = 0;  // the same, of fp32 [n / num_ranks + 4]; used if RankSumMeetings is 2
  int64_t n = 0;
  float* out = nullptr;  // [n] = or (where it `accumulates`) += part of rank 0 + part of rank 1 ...
  bool accumulates = false;
  int64_t delay_ns = 0;  // nothing is written before so much time has passed
};
void RankSum(const RankSumArgs& args, Stream& stream);

// How often ranks meet in a RankSum that meets: twice, where reading a slice of every rank's
// part and then every rank's sums takes less than reading all parts.
int RankSumMeetings(int64_t n, int32_t num_ranks);

struct RankGatherArgs {
  RankBlocks ranks;
  int64_t part_begin = 0;  // of fp32 [num_rows, words of the rank] in each block
  int64_t num_rows = 0;
  int64_t vocab_size = 0;  // rank r has words [r * w, (r + 1) * w) of it, w = ceil(size / ranks)
  float* out = nullptr;    // [num_rows, vocab_size], written on rank 0
  int64_t delay_ns = 0;
};
void RankGather(const RankGatherArgs& args, Stream& stream);

}  // namespace graft
