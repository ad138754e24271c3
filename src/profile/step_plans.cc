#include "profile/step_plans.h"

#include <algorithm>

#include "base/random.h"

namespace graft {
namespace {

class RandomMasks : public MaskSource {
 public:
  RandomMasks(int32_t vocab_size, uint64_t seed)
      : words_(static_cast<size_t>(NumMaskWords(vocab_size))) {
    Random random(seed);
    for (uint32_t& word : words_) word = static_cast<uint32_t>(random.Bits());
  }
  bool FillMask(const StepPlan& /*plan*/, size_t /*idx*/, std::span<uint32_t> words) override {
    std::copy(words_.begin(), words_.end(), words.begin());
    return true;
  }

 private:
  std::vector<uint32_t> words_;
};

}  // namespace

StepPlan PlanRows(const std::vector<RowsOfSequence>& sequences, int32_t page_tokens,
                  int32_t vocab_size, uint64_t seed) {
  Random random(seed);
  StepPlan plan;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const RowsOfSequence& one = sequences[i];
    PlannedSequence sequence;
    sequence.sequence_slot = static_cast<int32_t>(i);
    sequence.adapter_slot = one.adapter;
    sequence.token_begin = static_cast<int32_t>(plan.tokens.size());
    sequence.num_tokens = one.rows;
    sequence.num_drafts = one.drafts;
    plan.num_drafts += one.drafts;
    sequence.num_prompt_rows = one.position == 0 ? one.rows : 0;
    sequence.position_begin = one.position;
    sequence.page_begin = static_cast<int32_t>(plan.pages.size());
    sequence.num_pages = (one.position + one.rows + page_tokens - 1) / page_tokens;
    sequence.samples = true;
    sequence.has_mask = one.masked;
    for (int32_t row = 0; row < one.rows; ++row) {
      plan.tokens.push_back(static_cast<int32_t>(random.Below(static_cast<uint64_t>(vocab_size))));
    }
    for (int32_t page = 0; page < sequence.num_pages; ++page) {
      plan.pages.push_back(static_cast<int32_t>(plan.pages.size()));
    }
    plan.sequences.push_back(sequence);
    plan.starts.push_back({sequence.sequence_slot, {}, {0}, {}});
  }
  return plan;
}

std::vector<AdapterSlot> ShareOut(int32_t num_adapters, int32_t num_sequences) {
  std::vector<AdapterSlot> adapters(static_cast<size_t>(num_sequences));
  for (int32_t i = 0; i < num_sequences; ++i) adapters[i] = i * num_adapters / num_sequences;
  return adapters;
}

std::unique_ptr<MaskSource> MakeRandomMasks(int32_t vocab_size, uint64_t seed) {
  return std::make_unique<RandomMasks>(vocab_size, seed);
}

}  // namespace graft
