#include "executor/sequence_sampler.h"

#include <algorithm>
#include <functional>

#include "base/check.h"
#include "base/token_mask.h"

namespace graft {

void SequenceSampler::Start(const SequenceStart& start, int32_t vocab_size) {
  spec_ = start.sampling;
  allowed_.clear();
  if (!spec_.allowed_tokens.empty()) {
    allowed_.resize(static_cast<size_t>(NumMaskWords(vocab_size)));
    for (const int32_t token : spec_.allowed_tokens) AddToMask(token, allowed_.data());
  }
  prompt_tokens_ = start.prompt_tokens;
  prompt_position_ = start.num_virtual_tokens;
  num_drawn_ = 0;
  counts_.clear();
  count_idx_.clear();
  if (CountsTokens()) {
    for (const int32_t token : prompt_tokens_) CountOf(token).in_prompt = true;
  }
  for (const int32_t token : start.output_tokens) Accept(token);
}

SamplingRow SequenceSampler::Row(std::span<const int32_t> banned, const uint32_t* mask) {
  SamplingRow row;
  row.temperature = spec_.temperature;
  row.top_p = spec_.top_p;
  row.top_k = spec_.top_k;
  row.min_p = spec_.min_p;
  row.repetition_penalty = spec_.repetition_penalty;
  row.frequency_penalty = spec_.frequency_penalty;
  row.presence_penalty = spec_.presence_penalty;
  row.seed = spec_.seed;
  row.draw_idx = num_drawn_;
  row.num_logprobs = spec_.num_logprobs;
  row.counts = counts_.data();
  row.num_counts = static_cast<int32_t>(counts_.size());
  row.logit_bias = spec_.logit_bias.data();
  row.num_logit_bias = static_cast<int32_t>(spec_.logit_bias.size());
  row.banned = banned.data();
  row.num_banned = static_cast<int32_t>(banned.size());
  row.mask = mask;
  if (allowed_.empty()) return row;
  row.mask = allowed_.data();
  if (mask == nullptr) return row;
  allowed_in_mask_.resize(allowed_.size());
  std::transform(allowed_.begin(), allowed_.end(), mask, allowed_in_mask_.begin(),
                 std::bit_and<uint32_t>());
  row.mask = allowed_in_mask_.data();
  return row;
}

SamplingRow SequenceSampler::RowAhead(int32_t num_ahead) {
  CHECK(!CountsTokens()) << "the last token is counted before the draw";
  SamplingRow row = Row({});
  row.draw_idx += static_cast<uint64_t>(num_ahead);
  return row;
}

void SequenceSampler::Accept(int32_t token) {
  ++num_drawn_;
  if (CountsTokens()) ++CountOf(token).num_output;
}

bool SequenceSampler::CountsTokens() const {
  return spec_.repetition_penalty != 1.0f || spec_.frequency_penalty != 0.0f ||
         spec_.presence_penalty != 0.0f;
}

TokenCount& SequenceSampler::CountOf(int32_t token) {
  const auto [it, inserted] = count_idx_.try_emplace(token, counts_.size());
  if (inserted) counts_.push_back(TokenCount{.token = token});
  return counts_[it->second];
}

}  // namespace graft
