// Ranks are streams of one GPU here, each with a thread that launches, so that they meet as those
// of several GPUs do.
#include "kernels/rank_sum/rank_sum.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "kernels/common/op_test_util.h"
#include "tensor/cuda_graph.h"
#include "tensor/cuda_memory.h"

namespace graft {
namespace rank_sum_test {

constexpr int64_t kSecondNs = 1'000'000'000;

// Set before the driver starts. A kernel that is loaded at its first launch may wait for those that
// run, and here these wait for a rank that launches its kernel later. And each rank needs a
// hardware queue of its own.
const bool is_set = setenv("CUDA_MODULE_LOADING", "EAGER", /*overwrite=*/1) == 0 &&
                    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/1) == 0;

// Numbers that add up differently in another order.
float Element(int32_t rank, int64_t round, int64_t i) {
  const float sizes[] = {1e8f, 1.0f, -1e8f, 3e-3f, 7.0f};
  return sizes[static_cast<size_t>(rank + round + i) % 5] *
         (1.0f + static_cast<float>((i * 31 + rank * 7 + round) % 101) / 64.0f);
}

float SumOf(int32_t num_ranks, int64_t round, int64_t i, float before) {
  float sum = Element(0, round, i);
  for (int32_t rank = 1; rank < num_ranks; ++rank) sum += Element(rank, round, i);
  return before + sum;
}

class Ranks {
 public:
  Ranks(int32_t num_ranks, int64_t bytes) : num_ranks_(num_ranks), words_(2 * sizeof(uint32_t)) {
    for (int32_t rank = 0; rank < num_ranks; ++rank) {
      blocks_.emplace_back(kRankWordsBytes + bytes, kDevice);
      streams_.push_back(std::make_unique<OwnedStream>(kDevice, nullptr));
    }
  }

  int32_t num_ranks() const { return num_ranks_; }
  Stream& stream(int32_t rank) { return streams_[rank]->get(); }
  uint32_t& broken() { return words_.as<uint32_t>()[0]; }
  uint32_t& late() { return words_.as<uint32_t>()[1]; }
  RankBlocks Of(int32_t rank, int64_t timeout_ns = 60 * kSecondNs) {
    RankBlocks blocks{.rank = rank,
                      .num_ranks = num_ranks_,
                      .broken = words_.as<uint32_t>(),
                      .late = words_.as<uint32_t>() + 1,
                      .timeout_ns = timeout_ns};
    for (int32_t i = 0; i < num_ranks_; ++i) blocks.blocks[i] = blocks_[i].as<char>();
    return blocks;
  }
  // Into a rank's block, in order on its stream.
  void Write(int32_t rank, int64_t begin, const std::vector<float>& values) {
    CopyToDevice(blocks_[rank].as<char>() + begin, values.data(),
                 static_cast<int64_t>(values.size() * sizeof(float)), stream(rank));
  }
  // One for each rank. No thread may allocate memory while a rank's kernel waits for other ranks:
  // the allocation may wait for the kernel.
  static std::vector<Buffer> BuffersOf(int32_t num_ranks, int64_t bytes) {
    std::vector<Buffer> buffers;
    for (int32_t rank = 0; rank < num_ranks; ++rank) buffers.emplace_back(bytes, kDevice);
    return buffers;
  }
  // Calls body(rank) for all at once.
  template <typename Body>
  void Run(const Body& body) {
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < num_ranks_; ++rank) {
      threads.emplace_back([&, rank] {
        UseDevice(kDevice);
        body(rank);
        Synchronize(stream(rank));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  static constexpr Device kDevice{DeviceKind::kCuda};

 private:
  const int32_t num_ranks_;
  std::vector<Buffer> blocks_;
  std::vector<std::unique_ptr<OwnedStream>> streams_;
  PinnedBuffer words_;
};

int64_t Border(int64_t bytes) { return (bytes + 255) / 256 * 256; }

class RankSumTest : public ::testing::TestWithParam<int32_t> {
 protected:
  void SetUp() override {
    if (NumCudaDevices() == 0) GTEST_SKIP() << "this machine shows no GPU";
  }
};

// One meeting and two, numbers that are no vectors, outputs that are added to; again and again, in
// parts that take turns. So few that eight ranks' thread blocks find room on one GPU at once: those
// that wait leave none to others.
TEST_P(RankSumTest, SumsInTheOrderOfTheRanks) {
  const int32_t num_ranks = GetParam();
  for (const int64_t n : {1, 3, 4, 1000, 4096, 20'001, 100'000}) {
    const int64_t part_bytes = Border(n * 4);
    const int64_t sums_begin = kRankWordsBytes + 2 * part_bytes;
    Ranks ranks(num_ranks, 2 * part_bytes + Border((n / num_ranks + 8) * 4));
    constexpr int64_t kRounds = 5;
    std::vector<std::vector<float>> got(static_cast<size_t>(num_ranks));
    std::vector<Buffer> outs = Ranks::BuffersOf(num_ranks, n * 4);
    ranks.Run([&](int32_t rank) {
      Stream& stream = ranks.stream(rank);
      Buffer& out = outs[static_cast<size_t>(rank)];
      for (int64_t round = 0; round < kRounds; ++round) {
        std::vector<float> part(static_cast<size_t>(n));
        for (int64_t i = 0; i < n; ++i) part[i] = Element(rank, round, i);
        const int64_t begin = kRankWordsBytes + round % 2 * part_bytes;
        ranks.Write(rank, begin, part);
        RankSum({.ranks = ranks.Of(rank),
                 .part_begin = begin,
                 .sums_begin = sums_begin,
                 .n = n,
                 .out = out.as<float>(),
                 .accumulates = round > 0},
                stream);
        Synchronize(stream);
      }
      got[rank].resize(static_cast<size_t>(n));
      CopyFromDevice(got[rank].data(), out.data(), n * 4, stream);
      Synchronize(stream);
    });
    for (int64_t i = 0; i < n; ++i) {
      float sum = 0.0f;
      for (int64_t round = 0; round < kRounds; ++round) {
        sum = round == 0 ? SumOf(num_ranks, 0, i, 0.0f) : SumOf(num_ranks, round, i, sum);
      }
      for (int32_t rank = 0; rank < num_ranks; ++rank) {
        ASSERT_EQ(got[rank][i], sum) << n << " numbers, rank " << rank << ", number " << i;
      }
    }
  }
}

TEST_P(RankSumTest, AGraphIsReplayed) {
  const int32_t num_ranks = GetParam();
  constexpr int64_t kN = 5000;
  Ranks ranks(num_ranks, 3 * Border(kN * 4));
  std::vector<std::vector<float>> got(static_cast<size_t>(num_ranks));
  std::vector<Buffer> outs = Ranks::BuffersOf(num_ranks, kN * 4);
  std::barrier all_recorded(num_ranks);  // for graphs, too, take memory
  ranks.Run([&](int32_t rank) {
    Stream& stream = ranks.stream(rank);
    Buffer& out = outs[static_cast<size_t>(rank)];
    std::vector<float> part(kN);
    for (int64_t i = 0; i < kN; ++i) part[i] = Element(rank, 0, i);
    ranks.Write(rank, kRankWordsBytes, part);
    Synchronize(stream);
    CapturedGraph graph(stream, [&] {
      for (int i = 0; i < 3; ++i) {
        RankSum({.ranks = ranks.Of(rank),
                 .part_begin = kRankWordsBytes,
                 .sums_begin = kRankWordsBytes + Border(kN * 4),
                 .n = kN,
                 .out = out.as<float>(),
                 .accumulates = true},
                stream);
      }
    });
    all_recorded.arrive_and_wait();
    for (int i = 0; i < 20; ++i) graph.Launch(stream);
    got[rank].resize(kN);
    CopyFromDevice(got[rank].data(), out.data(), kN * 4, stream);
    Synchronize(stream);
  });
  for (int64_t i = 0; i < kN; ++i) {
    float sum = 0.0f;
    for (int round = 0; round < 60; ++round) sum = SumOf(num_ranks, 0, i, sum);
    for (int32_t rank = 0; rank < num_ranks; ++rank) ASSERT_EQ(got[rank][i], sum) << i;
  }
}

TEST_P(RankSumTest, TokensAndLogits) {
  const int32_t num_ranks = GetParam();
  for (const int64_t vocab : {int64_t{num_ranks} * 4, int64_t{101}, int64_t{32'000}}) {
    const int64_t words_max = (vocab + num_ranks - 1) / num_ranks;
    if ((num_ranks - 1) * words_max >= vocab) continue;
    constexpr int64_t kRows = 3;
    const int64_t part_bytes = Border(kRows * words_max * 4);
    Ranks ranks(num_ranks, part_bytes + 256);
    const std::vector<int32_t> tokens = {7, -2, 99};
    std::vector<float> logits(static_cast<size_t>(kRows * vocab));
    std::vector<std::vector<int32_t>> told(static_cast<size_t>(num_ranks), tokens);
    std::vector<Buffer> all_tokens = Ranks::BuffersOf(num_ranks, 12);
    std::vector<Buffer> outs = Ranks::BuffersOf(num_ranks, kRows * vocab * 4);
    ranks.Run([&](int32_t rank) {
      Stream& stream = ranks.stream(rank);
      const RankBlocks blocks = ranks.Of(rank);
      Buffer& own_tokens = all_tokens[static_cast<size_t>(rank)];
      CopyToDevice(own_tokens.data(), tokens.data(), rank == 0 ? 12 : 0, stream);
      ShareRankTokens({.ranks = blocks,
                       .tokens = own_tokens.as<int32_t>(),
                       .n = 3,
                       .block_begin = kRankWordsBytes + part_bytes},
                      stream);
      Synchronize(stream);  // a copy to the host's common memory keeps other threads' launches back
      CopyFromDevice(told[rank].data(), blocks.blocks[0] + kRankWordsBytes + part_bytes, 12,
                     stream);
      const int64_t words = std::min(words_max, vocab - rank * words_max);
      std::vector<float> part(static_cast<size_t>(kRows * words));
      for (int64_t i = 0; i < kRows * words; ++i) {
        part[i] = static_cast<float>(i / words * vocab + rank * words_max + i % words);
      }
      ranks.Write(rank, kRankWordsBytes, part);
      Buffer& out = outs[static_cast<size_t>(rank)];
      RankGather({.ranks = blocks,
                  .part_begin = kRankWordsBytes,
                  .num_rows = kRows,
                  .vocab_size = vocab,
                  .out = out.as<float>()},
                 stream);
      Synchronize(stream);
      if (rank == 0) CopyFromDevice(logits.data(), out.data(), out.bytes(), stream);
      Synchronize(stream);
    });
    for (int32_t rank = 0; rank < num_ranks; ++rank) EXPECT_EQ(told[rank], tokens);
    for (size_t i = 0; i < logits.size(); ++i) ASSERT_EQ(logits[i], static_cast<float>(i));
  }
}

// A rank that waits in vain says for which rank, and waits for no rank any more.
TEST_P(RankSumTest, ARankThatDoesNotComeIsNotWaitedForForEver) {
  const int32_t num_ranks = GetParam();
  Ranks ranks(num_ranks, 256);
  for (int i = 0; i < 100; ++i) MeetRanks(ranks.Of(0, kSecondNs / 10), ranks.stream(0));
  Synchronize(ranks.stream(0));
  EXPECT_GE(ranks.late(), 2u);
  EXPECT_LE(ranks.late(), static_cast<uint32_t>(num_ranks));
  EXPECT_EQ(ranks.broken(), 0u);
}

TEST_P(RankSumTest, NobodyWaitsOnceARankCannotGoOn) {
  Ranks ranks(GetParam(), 256);
  MeetRanks(ranks.Of(0), ranks.stream(0));
  ranks.broken() = 1;
  Synchronize(ranks.stream(0));
  EXPECT_EQ(ranks.late(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Counts, RankSumTest, ::testing::Values(2, 3, 4, 8));

TEST(RankSumMeetingsTest, ManyNumbersOfManyRanksTakeTwo) {
  for (const int64_t n : {int64_t{1}, int64_t{1} << 30}) EXPECT_EQ(RankSumMeetings(n, 2), 1);
  EXPECT_EQ(RankSumMeetings(32 * 1024, 8), 1);
  EXPECT_EQ(RankSumMeetings(2048 * 8192, 8), 2);
}

}  // namespace rank_sum_test
}  // namespace graft
