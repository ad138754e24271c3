// Shards: what each of several ranks holds and computes of one model, by Megatron-LM's split. q, k,
// v, gate and up are cut by their outputs, so that a rank has whole heads and a part of the MLP; o
// and down by their inputs, so that a rank's output is one summand of the product; the embedding
// and lm_head by the vocabulary. Where there are fewer heads of keys than ranks, ranks share one:
// each keeps a copy. All ranks have norms, biases of o and down are rank 0's. Adapters are cut
// with the base and keep one side whole (Punica, section 6): A of q, k, v, gate and up, and B of o
// and down. So their terms join those of the base without a word more between the ranks. Values and
// pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "model/lora_module.h"

namespace graft {

struct Shard {
  int32_t rank = 0;
  int32_t num_ranks = 1;
};

// [begin, end)
struct IndexRange {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }

  bool operator==(const IndexRange&) const = default;
};

// kInvalidArgument names what so many ranks cannot share, and how many can.
Status CheckRanks(const ModelConfig& config, int32_t num_ranks);

// The shape of what each rank computes, given CheckRanks: its heads and its part of the MLP. Hidden
// states and the vocabulary are whole.
ModelConfig ShardConfig(const ModelConfig& config, int32_t num_ranks);

// What of the whole model's a rank has.
IndexRange HeadsOf(const ModelConfig& config, const Shard& shard);
IndexRange KvHeadsOf(const ModelConfig& config, const Shard& shard);
IndexRange IntermediateOf(const ModelConfig& config, const Shard& shard);
// The last rank's part may be smaller than the others'.
IndexRange VocabularyOf(const ModelConfig& config, const Shard& shard);
// The most that a rank has of it.
int64_t VocabularySliceMax(const ModelConfig& config, int32_t num_ranks);

// A module's inputs and outputs that a rank has of an adapter: columns of A, rows of B.
struct LoraModuleSlice {
  IndexRange in;
  IndexRange out;
};
LoraModuleSlice SliceOfLoraModule(const ModelConfig& config, LoraModule module, const Shard& shard);

// The head's blocks are cut otherwise: the words of a rank's block lie in one or more of the whole
// model's.
struct HeadPiece {
  LoraModule from = LoraModule::kQ;  // of the whole model's blocks
  LoraModule to = LoraModule::kQ;    // of the rank's
  int64_t from_word = 0;             // in its block
  int64_t to_word = 0;               // in its block
  int64_t num_words = 0;
};
std::vector<HeadPiece> HeadPiecesOf(const ModelConfig& config, const Shard& shard);

// Where rows of a module lie in the stored projection that holds it, in their order.
std::vector<IndexRange> StoredRowsOf(const ModelConfig& config, LoraModule module,
                                     const IndexRange& rows);
// The same of all rows of the projection, one module's after the other.
std::vector<int64_t> StoredRowsOf(const ModelConfig& config, const StoredProjection& projection);

}  // namespace graft
