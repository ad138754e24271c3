// What a Transformer does where several ranks share the model. Its exchanges of a step are, in this
// order: the beginning, the embeddings, two for each layer, and the logits.
#include "model/transformer.h"

namespace graft {

const int32_t* Transformer::BeginExchanges(std::span<const int32_t> tokens, Stream& stream) {
  exchanges_done_ = 1;
  return ranks_ == nullptr ? tokens.data() : ranks_->Begin(tokens, stream);
}

Transformer::Target Transformer::PartOf(const Target& target) {
  if (ranks_ == nullptr) return target;
  return {ranks_->part(), false};
}

// Counted first: an exchange that was begun is one that the others need not be given any more.
void Transformer::SumRanks(int64_t n, const Target& sum, Stream& stream) {
  ++exchanges_done_;
  ranks_->Sum(n, sum.accumulates, sum.y, stream);
}

// Every rank has the logits of its words.
void Transformer::GatherLogits(int64_t num_rows, Stream& stream) {
  ++exchanges_done_;
  ranks_->Gather(num_rows, config_.vocab_size, logits_.as<float>(), stream);
}

void Transformer::GiveUp(int64_t num_rows, bool has_logits, Stream& stream) {
  CHECK(ranks_ != nullptr) << "no other rank waits";
  if (exchanges_done_ == 0) BeginExchanges({}, stream);
  const int64_t num_sums = num_rows == 0 ? 0 : 1 + int64_t{2} * config_.num_layers;
  for (; exchanges_done_ <= num_sums; ++exchanges_done_) {
    ranks_->Skip(num_rows * config_.hidden_size, stream);
  }
  if (has_logits && exchanges_done_ <= num_sums + 1) ranks_->Skip(0, stream);
  exchanges_done_ = 0;
}

}  // namespace graft
