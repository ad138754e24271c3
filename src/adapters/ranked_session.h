// The ranks of one model, each a thread of the test with a TestSession, a slice of the weights and
// slices of the adapters. For tests only.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "layers/lora_store.h"
#include "model/shard.h"
#include "model/test_session.h"
#include "tensor/shared_memory.h"

namespace graft::testing {

class RankedSession {
 public:
  using MakeWeights = std::function<ModelWeights(const Shard& shard, Stream& stream)>;

  RankedSession(const ModelConfig& config, int32_t num_ranks, const MakeWeights& make_weights,
                const TransformerLimits& limits = {.step_tokens_max = 512, .logits_rows_max = 512})
      : config_(config) {
    const CommunicatorLimits communicator{.num_ranks = num_ranks,
                                          .part_floats = PartFloatsOf(limits, config, num_ranks)};
    Result<SharedMemory> memory = SharedMemory::Create(Communicator::Bytes(communicator));
    CHECK(memory.ok()) << memory.status().ToString();
    memory_ = std::move(*memory);
    Communicator::Format(communicator, memory_.data());
    for (int32_t rank = 0; rank < num_ranks; ++rank) {
      ranks_.push_back(std::make_unique<Rank>(config, Shard{rank, num_ranks}, make_weights, limits,
                                              memory_.data()));
    }
  }

  // Each rank takes its slice.
  void SetAdapter(int32_t slot, const LoraWeights& adapter) {
    for (const auto& rank : ranks_)
      rank->loras.Set(slot, adapter.SliceOf(config_, rank->shard).TakeRows());
  }

  void ChangeHead() {
    for (const auto& rank : ranks_) rank->session.ChangeHead();
  }

  // Runs one step on all ranks; the logits are rank 0's.
  std::vector<std::vector<float>> Step(const std::vector<Chunk>& chunks) {
    std::vector<std::thread> others;
    for (size_t rank = 1; rank < ranks_.size(); ++rank) {
      others.emplace_back([&, rank] { ranks_[rank]->Step(chunks); });
    }
    std::vector<std::vector<float>> logits = ranks_[0]->Step(chunks);
    for (std::thread& other : others) other.join();
    return logits;
  }

  const ModelWeights& weights(int32_t rank) const { return ranks_[rank]->weights; }

 private:
  static constexpr int32_t kAdaptersMax = 4;

  struct Rank {
    Rank(const ModelConfig& config, const Shard& of, const MakeWeights& make_weights,
         const TransformerLimits& limits, char* memory)
        : shard(of),
          weights(make_weights(of, stream)),
          loras(config, kAdaptersMax),
          communicator(memory, of.rank),
          exchange(MakeHostExchange(communicator)),
          session(ShardConfig(config, of.num_ranks), weights, stream, 5, 256, limits,
                  exchange.get()) {}

    std::vector<std::vector<float>> Step(const std::vector<Chunk>& chunks) {
      return session.Step(
          chunks, {loras.matrices(0, LoraModule::kQ), loras.matrices_stride(), loras.rank_max()});
    }

    const Shard shard;
    ThreadPool threads{1};
    Stream stream{.device = {}, .cpu_threads = &threads};
    ModelWeights weights;
    LoraStore loras;
    Communicator communicator;
    const std::unique_ptr<RankExchange> exchange;
    TestSession session;
  };

  const ModelConfig config_;
  SharedMemory memory_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace graft::testing
