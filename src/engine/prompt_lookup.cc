#include "engine/prompt_lookup.h"

#include <algorithm>

#include "base/check.h"

namespace graft {
namespace {

// The share of the newest forecast in the average: few tokens tell that a copy has begun or ended.
constexpr double kNewest = 0.2;
constexpr size_t kSlotsMin = 64;

}  // namespace

size_t PromptLookup::SlotOf(std::span<const int32_t> tokens, int32_t end) const {
  uint64_t hash = 0;
  for (const int32_t token : tokens.subspan(static_cast<size_t>(end - kGramTokens), kGramTokens)) {
    hash = (hash ^ static_cast<uint64_t>(token)) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 29;
  }
  return hash & (ends_.size() - 1);
}

// The grams so far are put in again: as often as the table doubles.
void PromptLookup::Grow(std::span<const int32_t> tokens) {
  size_t num_slots = std::max(ends_.size(), kSlotsMin);
  while (num_slots < 2 * tokens.size()) num_slots *= 2;
  if (num_slots == ends_.size()) return;
  ends_.assign(num_slots, 0);
  for (int32_t end = kGramTokens; end < num_tokens_; ++end) ends_[SlotOf(tokens, end)] = end;
}

int32_t PromptLookup::Find(std::span<const int32_t> tokens) const {
  const auto size = static_cast<int32_t>(tokens.size());
  if (size < kGramTokens) return -1;
  const int32_t end = ends_[SlotOf(tokens, size)];
  if (end == 0) return -1;
  // Another gram may have fallen there.
  const auto found = tokens.subspan(static_cast<size_t>(end - kGramTokens), kGramTokens);
  const auto last = tokens.last(kGramTokens);
  return std::equal(found.begin(), found.end(), last.begin()) ? end : -1;
}

PromptLookup::Forecasts PromptLookup::Extend(std::span<const int32_t> tokens, int32_t num_prompt) {
  CHECK_GE(tokens.size(), static_cast<size_t>(num_tokens_)) << "tokens were taken back";
  Grow(tokens);
  Forecasts forecasts;
  for (; num_tokens_ < static_cast<int32_t>(tokens.size()); ++num_tokens_) {
    const bool is_right = has_match() && tokens[static_cast<size_t>(match_)] ==
                                             tokens[static_cast<size_t>(num_tokens_)];
    if (has_match() && num_tokens_ >= num_prompt) {
      own_ += kNewest * ((is_right ? 1.0 : 0.0) - own_);
      first_weight_ *= 1.0 - kNewest;
      ++forecasts.num;
      forecasts.num_right += is_right ? 1 : 0;
    }
    // A gram is findable once a token stands after it.
    if (num_tokens_ >= kGramTokens) ends_[SlotOf(tokens, num_tokens_)] = num_tokens_;
    // A text that is followed is followed on, though its last tokens may stand elsewhere too.
    match_ = is_right ? match_ + 1 : Find(tokens.first(static_cast<size_t>(num_tokens_) + 1));
  }
  return forecasts;
}

void PromptLookup::Draft(std::span<const int32_t> tokens, int32_t count,
                         std::vector<int32_t>* drafts) const {
  CHECK(has_match());
  const size_t begin = drafts->size();
  for (int32_t i = 0; i < count; ++i) {
    const auto from = static_cast<size_t>(match_ + i);
    const int32_t token =
        from < tokens.size() ? tokens[from] : (*drafts)[begin + from - tokens.size()];
    drafts->push_back(token);
  }
}

}  // namespace graft
