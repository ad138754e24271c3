#include "layers/step_exchanges.h"

#include "base/check.h"

namespace graft {

const int32_t* StepExchanges::Begin(std::span<const int32_t> tokens, Stream& stream) {
  num_done_ = 1;
  return ranks_ == nullptr ? tokens.data() : ranks_->Begin(tokens, stream);
}

ResidualTarget StepExchanges::PartOf(const ResidualTarget& target) const {
  if (ranks_ == nullptr) return target;
  CHECK(target.scale == 1.0f) << "ranks' sums know no scale";
  return {ranks_->part(), false};
}

// Counted first: an exchange that was begun is one that the others need not be given any more.
void StepExchanges::Sum(int64_t n, const ResidualTarget& target, Stream& stream) {
  ++num_done_;
  ranks_->Sum(n, target.accumulates, target.y, stream);
}

void StepExchanges::Gather(int64_t num_rows, int64_t vocab_size, float* logits, Stream& stream) {
  ++num_done_;
  ranks_->Gather(num_rows, vocab_size, logits, stream);
}

void StepExchanges::GiveUp(int64_t num_rows, std::span<const int64_t> sums, bool has_logits,
                           Stream& stream) {
  CHECK(ranks_ != nullptr) << "no other rank waits";
  if (num_done_ == 0) Begin({}, stream);
  const int64_t num_sums = num_rows == 0 ? 0 : std::ssize(sums);
  for (; num_done_ <= num_sums; ++num_done_) {
    ranks_->Skip(num_rows * sums[static_cast<size_t>(num_done_ - 1)], stream);
  }
  if (has_logits && num_done_ <= num_sums + 1) ranks_->Skip(0, stream);
  num_done_ = 0;
}

}  // namespace graft
