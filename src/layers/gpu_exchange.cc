#include "layers/gpu_exchange.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "kernels/rank_sum/rank_sum.h"
#include "tensor/buffer.h"
#include "tensor/cuda_memory.h"
#include "tensor/nccl.h"
#include "tensor/peer_memory.h"

namespace graft {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
constexpr int64_t kBlockAlignment = 256;

int64_t BlockAligned(int64_t bytes) {
  return (bytes + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
}

// Where things lie in a rank's block. Two parts take turns within a step.
struct BlockLayout {
  BlockLayout(const GpuExchangeLimits& limits, int32_t num_ranks)
      : parts{kRankWordsBytes, kRankWordsBytes + BlockAligned(limits.part_floats * kFloatBytes)},
        sums(parts[1] + BlockAligned(limits.part_floats * kFloatBytes)),
        tokens(sums + BlockAligned((limits.part_floats / num_ranks + 8) * kFloatBytes)),
        end(tokens + BlockAligned(limits.tokens_max * int64_t{sizeof(int32_t)})) {}

  int64_t parts[2];
  int64_t sums;
  int64_t tokens;
  int64_t end;
};

// Ranks with kernels that read each other's memory. Why none writes what another still reads: a
// part is written by a kernel behind a meeting of the other part, to which all came after they had
// read this one; a step's first part, its sums and its tokens behind the meeting that begins it.
class PeerExchange : public RankExchange {
 public:
  PeerExchange(Communicator& communicator, PeerMemory memory, const GpuExchangeLimits& limits)
      : communicator_(communicator),
        memory_(std::move(memory)),
        limits_(limits),
        layout_(limits, communicator.num_ranks()),
        late_(sizeof(uint32_t)) {
    LockPages(communicator.header().data(), static_cast<int64_t>(communicator.header().size()));
    blocks_.rank = communicator.rank();
    blocks_.num_ranks = communicator.num_ranks();
    for (int32_t rank = 0; rank < num_ranks(); ++rank) blocks_.blocks[rank] = memory_.of(rank);
    blocks_.broken = communicator.broken();
    blocks_.late = late_.as<uint32_t>();
    blocks_.timeout_ns = communicator.timeout_ns();
  }
  ~PeerExchange() override { UnlockPages(communicator_.header().data()); }

  int32_t rank() const override { return blocks_.rank; }
  int32_t num_ranks() const override { return blocks_.num_ranks; }
  int64_t part_floats() const override { return limits_.part_floats; }

  const int32_t* Begin(std::span<const int32_t> tokens, Stream& stream) override {
    CHECK_LE(tokens.size(), static_cast<size_t>(limits_.tokens_max));
    turn_ = 0;
    ShareRankTokens({.ranks = blocks_,
                     .tokens = tokens.data(),
                     .n = static_cast<int64_t>(tokens.size()),
                     .block_begin = layout_.tokens},
                    stream);
    return reinterpret_cast<const int32_t*>(blocks_.blocks[0] + layout_.tokens);
  }
  float* part() override {
    return reinterpret_cast<float*>(blocks_.blocks[rank()] + layout_.parts[turn_]);
  }
  void Sum(int64_t n, bool accumulates, float* sum, Stream& stream) override {
    CHECK_LE(n, limits_.part_floats);
    RankSum({.ranks = blocks_,
             .part_begin = layout_.parts[std::exchange(turn_, 1 - turn_)],
             .sums_begin = layout_.sums,
             .n = n,
             .out = sum,
             .accumulates = accumulates},
            stream);
  }
  void Gather(int64_t num_rows, int64_t vocab_size, float* out, Stream& stream) override {
    RankGather({.ranks = blocks_,
                .part_begin = layout_.parts[std::exchange(turn_, 1 - turn_)],
                .num_rows = num_rows,
                .vocab_size = vocab_size,
                .out = out},
               stream);
  }
  void Skip(int64_t n, Stream& stream) override {
    for (int i = RankSumMeetings(n, num_ranks()); i > 0; --i) MeetRanks(blocks_, stream);
    turn_ = 1 - turn_;
  }
  void CheckAfterStep() override {
    const uint32_t late = __atomic_load_n(late_.as<uint32_t>(), __ATOMIC_ACQUIRE);
    Status state = communicator_.state();
    if (state.ok() && late != 0) state = communicator_.Blame(static_cast<int32_t>(late) - 1);
    if (!state.ok()) EndRank(rank(), state);
  }

 private:
  Communicator& communicator_;
  const PeerMemory memory_;
  const GpuExchangeLimits limits_;
  const BlockLayout layout_;
  const PinnedBuffer late_;
  RankBlocks blocks_;
  int turn_ = 0;
};

// In steps of the kernels' vectors, so that every rank's floats begin on their borders.
int64_t VectorsOf(int64_t n) { return (n + 3) / 4 * 4; }

// Ranks' parts that come to lie side by side in this GPU's own memory, the rank's own one in front.
class GatheredParts {
 public:
  GatheredParts(int32_t rank, int32_t num_ranks, const GpuExchangeLimits& limits,
                const Device& device)
      : part_(PartBytes(limits), device), all_(num_ranks * part_.bytes(), device) {
    blocks_.rank = rank;
    blocks_.num_ranks = num_ranks;
    blocks_.meets = false;
  }

  float* part() { return part_.as<float>(); }
  float* all() { return all_.as<float>(); }
  // Parts of n floats each.
  RankBlocks Of(int64_t n) {
    RankBlocks blocks = blocks_;
    for (int32_t rank = 0; rank < blocks.num_ranks; ++rank) {
      blocks.blocks[rank] = all_.as<char>() + rank * n * kFloatBytes;
    }
    return blocks;
  }
  static int64_t BytesFor(const GpuExchangeLimits& limits, int32_t num_ranks) {
    return (1 + num_ranks) * PartBytes(limits);
  }

 private:
  // What moves is whole vectors.
  static int64_t PartBytes(const GpuExchangeLimits& limits) {
    return VectorsOf(std::max<int64_t>(limits.part_floats, limits.tokens_max)) * kFloatBytes;
  }

  Buffer part_;
  Buffer all_;
  RankBlocks blocks_;
};

class NcclExchange : public RankExchange {
 public:
  NcclExchange(Communicator& communicator, std::unique_ptr<Nccl> nccl, const Device& device,
               const GpuExchangeLimits& limits)
      : communicator_(communicator),
        nccl_(std::move(nccl)),
        limits_(limits),
        parts_(communicator.rank(), communicator.num_ranks(), limits, device),
        tokens_(communicator.num_ranks() * limits.tokens_max * int64_t{sizeof(int32_t)}, device) {}

  int32_t rank() const override { return communicator_.rank(); }
  int32_t num_ranks() const override { return communicator_.num_ranks(); }
  int64_t part_floats() const override { return limits_.part_floats; }

  // Tokens are as wide as floats, and nothing computes with them on their way.
  const int32_t* Begin(std::span<const int32_t> tokens, Stream& stream) override {
    if (tokens.empty()) return tokens.data();
    nccl_->AllGather(reinterpret_cast<const float*>(tokens.data()), tokens_.as<float>(),
                     static_cast<int64_t>(tokens.size()), stream);
    return tokens_.as<int32_t>();
  }
  float* part() override { return parts_.part(); }
  void Sum(int64_t n, bool accumulates, float* sum, Stream& stream) override {
    const int64_t moved = VectorsOf(n);
    nccl_->AllGather(parts_.part(), parts_.all(), moved, stream);
    RankSum({.ranks = parts_.Of(moved), .n = n, .out = sum, .accumulates = accumulates}, stream);
  }
  void Gather(int64_t num_rows, int64_t vocab_size, float* out, Stream& stream) override {
    const int64_t words_max = (vocab_size + num_ranks() - 1) / num_ranks();
    const int64_t moved = VectorsOf(num_rows * words_max);
    nccl_->AllGather(parts_.part(), parts_.all(), moved, stream);
    if (rank() != 0) return;
    RankGather(
        {.ranks = parts_.Of(moved), .num_rows = num_rows, .vocab_size = vocab_size, .out = out},
        stream);
  }
  // NCCL's calls must match in size, which a rank that gives a step up does not know of its logits.
  void Skip(int64_t n, Stream& stream) override {
    if (n == 0) EndRank(rank(), ResourceExhaustedError("memory ran out in a step's logits"));
    nccl_->AllGather(parts_.part(), parts_.all(), VectorsOf(n), stream);
  }
  void CheckAfterStep() override {
    const Status state = communicator_.state();
    if (!state.ok()) EndRank(rank(), state);
  }

 private:
  Communicator& communicator_;
  const std::unique_ptr<Nccl> nccl_;
  const GpuExchangeLimits limits_;
  GatheredParts parts_;
  Buffer tokens_;
};

class ModelledExchange : public RankExchange {
 public:
  ModelledExchange(int32_t num_ranks, const Device& device, const GpuExchangeLimits& limits,
                   const LinkModel& link)
      : limits_(limits), link_(link), part_(limits.part_floats * kFloatBytes, device) {
    blocks_.num_ranks = num_ranks;
    blocks_.meets = false;
    for (int32_t rank = 0; rank < num_ranks; ++rank) blocks_.blocks[rank] = part_.as<char>();
  }

  int32_t rank() const override { return 0; }
  int32_t num_ranks() const override { return blocks_.num_ranks; }
  int64_t part_floats() const override { return limits_.part_floats; }
  const int32_t* Begin(std::span<const int32_t> tokens, Stream&) override { return tokens.data(); }
  float* part() override { return part_.as<float>(); }
  void Sum(int64_t n, bool accumulates, float* sum, Stream& stream) override {
    const int64_t others = num_ranks() - 1;
    // As RankSum has it: all parts, or a slice of each and the sums of the others' slices.
    const int meetings = RankSumMeetings(n, num_ranks());
    const int64_t floats = meetings == 1 ? others * n : 2 * others * n / num_ranks();
    if (stream.device.is_cpu()) return SumOnHost(n, accumulates, sum);
    RankSum({.ranks = blocks_,
             .n = n,
             .out = sum,
             .accumulates = accumulates,
             .delay_ns = meetings * link_.DelayNs(0) + link_.DelayNs(floats * kFloatBytes) -
                         link_.DelayNs(0)},
            stream);
  }
  void Gather(int64_t num_rows, int64_t vocab_size, float* out, Stream& stream) override {
    const int64_t others = vocab_size - vocab_size / num_ranks();
    if (stream.device.is_cpu()) return GatherOnHost(num_rows, vocab_size, out);
    RankGather({.ranks = blocks_,
                .num_rows = num_rows,
                .vocab_size = vocab_size,
                .out = out,
                .delay_ns = link_.DelayNs(num_rows * others * kFloatBytes)},
               stream);
  }
  void Skip(int64_t, Stream&) override {}

 private:
  // A CPU's link is its memory: what is said of one is not waited for.
  void SumOnHost(int64_t n, bool accumulates, float* sum) {
    const auto num = static_cast<float>(num_ranks());
    for (int64_t i = 0; i < n; ++i) sum[i] = (accumulates ? sum[i] : 0.0f) + num * part()[i];
  }
  void GatherOnHost(int64_t num_rows, int64_t vocab_size, float* out) {
    const int64_t words = (vocab_size + num_ranks() - 1) / num_ranks();
    for (int64_t row = 0; row < num_rows; ++row) {
      for (int64_t word = 0; word < vocab_size; ++word) {
        out[row * vocab_size + word] = part()[row * words + word % words];
      }
    }
  }

  const GpuExchangeLimits limits_;
  const LinkModel link_;
  Buffer part_;
  RankBlocks blocks_;
};

}  // namespace

int64_t GpuExchangeBytes(const GpuExchangeLimits& limits, int32_t num_ranks) {
  return std::max(BlockLayout(limits, num_ranks).end,
                  GatheredParts::BytesFor(limits, num_ranks) +
                      num_ranks * limits.tokens_max * int64_t{sizeof(int32_t)});
}

Result<std::unique_ptr<RankExchange>> FirstExchange(RankTransport transport,
                                                    const ExchangeMakers& makers) {
  Status why_no_peers;
  if (transport != RankTransport::kNccl) {
    Result<std::unique_ptr<RankExchange>> peers = makers.peers();
    if (peers.ok() || transport == RankTransport::kPeer) return peers;
    why_no_peers = peers.status();
  }
  Result<std::unique_ptr<RankExchange>> nccl = makers.nccl();
  if (why_no_peers.ok()) return nccl;
  if (nccl.ok()) {
    if ((*nccl)->rank() == 0) LOG_WARN("{}: ranks exchange by NCCL", why_no_peers.message());
    return nccl;
  }
  return FailedPreconditionError(why_no_peers.message() + ", and " + nccl.status().message());
}

Result<std::unique_ptr<RankExchange>> MakeGpuExchange(Communicator& communicator,
                                                      const Device& device,
                                                      const GpuExchangeLimits& limits,
                                                      RankTransport transport) {
  using Made = Result<std::unique_ptr<RankExchange>>;
  const int32_t num_ranks = communicator.num_ranks();
  if (num_ranks > kGpuRanksMax) {
    return InvalidArgumentError(std::to_string(num_ranks) + " ranks on GPUs; " +
                                std::to_string(kGpuRanksMax) + " is the most");
  }
  const auto peers = [&]() -> Made {
    // A machine that has peers stands in for one that has not. All ranks see the same variable.
    if (std::getenv("GRAFT_PEERS_OFF") != nullptr) {
      return FailedPreconditionError("GRAFT_PEERS_OFF keeps GPUs from each other's memory");
    }
    ASSIGN_OR_RETURN(PeerMemory memory,
                     PeerMemory::Share(communicator, device, BlockLayout(limits, num_ranks).end));
    return std::unique_ptr<RankExchange>(
        std::make_unique<PeerExchange>(communicator, std::move(memory), limits));
  };
  const auto nccl = [&]() -> Made {
    ASSIGN_OR_RETURN(std::unique_ptr<Nccl> joined, Nccl::Join(communicator, device));
    return std::unique_ptr<RankExchange>(
        std::make_unique<NcclExchange>(communicator, std::move(joined), device, limits));
  };
  return FirstExchange(transport, {peers, nccl});
}

int64_t LinkModel::DelayNs(int64_t bytes) const {
  const double moving_us =
      gbytes_per_s == 0.0 ? 0.0 : static_cast<double>(bytes) / (gbytes_per_s * 1e3);
  return std::llround((us + moving_us) * 1e3);
}

std::unique_ptr<RankExchange> MakeModelledExchange(int32_t num_ranks, const Device& device,
                                                   const GpuExchangeLimits& limits,
                                                   const LinkModel& link) {
  return std::make_unique<ModelledExchange>(num_ranks, device, limits, link);
}

}  // namespace graft
