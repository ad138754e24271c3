// What a Transformer does where several ranks share the model.
#include <cstring>

#include "model/transformer.h"

namespace graft {

Transformer::Target Transformer::PartOf(const Target& target) {
  if (ranks_ == nullptr) return target;
  return {ranks_->part(), false};
}

void Transformer::SumRanks(int64_t n, const Target& sum, const Stream& stream) {
  const Status status = ranks_->AllReduce(n, sum.accumulates, sum.y, *stream.cpu_threads);
  if (!status.ok()) EndRank(ranks_->rank(), status);
}

// Every rank has the logits of its words.
void Transformer::GatherLogits(int64_t num_rows, const Stream& stream) {
  const Status status = ranks_->Exchange();
  if (!status.ok()) EndRank(ranks_->rank(), status);
  if (ranks_->rank() != 0) return;
  stream.cpu_threads->ParallelFor(num_rows, 1, [&](int64_t begin, int64_t end) {
    for (int32_t rank = 0; rank < ranks_->num_ranks(); ++rank) {
      const IndexRange words =
          VocabularyOf(config_, {.rank = rank, .num_ranks = ranks_->num_ranks()});
      const float* const part = ranks_->part_of(rank);
      for (int64_t row = begin; row < end; ++row) {
        std::memcpy(logits_.as<float>() + row * config_.vocab_size + words.begin,
                    part + row * words.size(), static_cast<size_t>(words.size()) * sizeof(float));
      }
    }
  });
}

}  // namespace graft
