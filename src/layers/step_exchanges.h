// StepExchanges: what the ranks of a model exchange in a step. These are, in order: the beginning,
// the embeddings, two for each layer (three where LayerSpec::norms_among_ranks), and the logits. A
// model of one rank exchanges nothing. Engine thread only.
#pragma once

#include <cstdint>
#include <span>

#include "layers/rank_exchange.h"
#include "tensor/stream.h"

namespace graft {

// Where a product writes its rows.
struct ResidualTarget {
  float* y = nullptr;
  bool accumulates = false;  // adds to what is there
  float scale = 1.0f;        // where it does, of what it adds: GemmEpilogue::scale
};

class StepExchanges {
 public:
  explicit StepExchanges(RankExchange* ranks) : ranks_(ranks) {}  // null: there is one rank

  bool has_ranks() const { return ranks_ != nullptr; }
  int32_t rank() const { return ranks_ == nullptr ? 0 : ranks_->rank(); }
  int32_t num_ranks() const { return ranks_ == nullptr ? 1 : ranks_->num_ranks(); }
  // Where the step's tokens are to be read.
  const int32_t* Begin(std::span<const int32_t> tokens, Stream& stream);
  // Where this rank writes its summand of what is to come to `target`, or its part of it.
  ResidualTarget PartOf(const ResidualTarget& target) const;
  // target = or += what all ranks have written as their parts, n numbers.
  void Sum(int64_t n, const ResidualTarget& target, Stream& stream);
  // Every rank has the logits of its words; rank 0 gets all of them.
  void Gather(int64_t num_rows, int64_t vocab_size, float* logits, Stream& stream);
  // No exchange of the next step has come about yet.
  void End() { num_done_ = 0; }
  // Where a step of so many rows was not computed to its end, or not even begun: takes part in what
  // is left of it, so that the other ranks come to their end. `sums`: the numbers of a row in each
  // of the step's sums.
  void GiveUp(int64_t num_rows, std::span<const int64_t> sums, bool has_logits, Stream& stream);
  void CheckAfterStep() const {
    if (ranks_ != nullptr) ranks_->CheckAfterStep();
  }

 private:
  RankExchange* ranks_;
  int64_t num_done_ = 0;  // of the step that runs
};

}  // namespace graft
