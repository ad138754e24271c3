#include <gtest/gtest.h>

#include "base/token_mask.h"
#include "executor/ragged_batch.h"
#include "executor/sequence_sampler.h"

namespace graft {
namespace {

PlannedSequence Planned(AdapterSlot adapter, int32_t token_begin, int32_t num_tokens,
                        int32_t position_begin, int32_t page_begin, int32_t num_pages) {
  PlannedSequence sequence;
  sequence.adapter_slot = adapter;
  sequence.token_begin = token_begin;
  sequence.num_tokens = num_tokens;
  sequence.position_begin = position_begin;
  sequence.page_begin = page_begin;
  sequence.num_pages = num_pages;
  return sequence;
}

TEST(RaggedBatchTest, LaysOutRowsPagesAndSegments) {
  StepPlan plan;
  plan.tokens = {10, 11, 12, 13, 14, 15};
  plan.pages = {7, 3, 5, 9, 1};
  plan.sequences = {
      Planned(kNoAdapter, 0, 1, 4, 0, 2),  // a decode row at position 4: second page, first slot
      Planned(2, 1, 3, 2, 2, 2),           // a chunk across a border between pages
      Planned(2, 4, 1, 0, 4, 1),           // the same adapter again: one segment
      Planned(6, 5, 1, 3, 4, 1),
  };
  plan.sequences[0].samples = true;
  plan.sequences[1].samples = true;
  RaggedBatch batch(4);
  batch.Build(plan);
  EXPECT_EQ(batch.positions(), (std::vector<int32_t>{4, 2, 3, 4, 0, 3}));
  EXPECT_EQ(batch.row_page(), (std::vector<int32_t>{3, 5, 5, 9, 1, 1}));
  EXPECT_EQ(batch.row_slot(), (std::vector<int32_t>{0, 2, 3, 0, 0, 3}));
  EXPECT_EQ(batch.row_begin(), (std::vector<int32_t>{0, 1, 4, 5, 6}));
  EXPECT_EQ(batch.page_begin(), (std::vector<int32_t>{0, 2, 4, 5, 6}));
  EXPECT_EQ(batch.kv_tokens(), (std::vector<int32_t>{5, 5, 1, 4}));
  ASSERT_EQ(batch.segments().size(), 2u);
  EXPECT_EQ(batch.segments()[0].row_begin, 1);
  EXPECT_EQ(batch.segments()[0].row_end, 5);
  EXPECT_EQ(batch.segments()[1].adapter_slot, 6);
  EXPECT_EQ(batch.sample_rows(), (std::vector<int32_t>{0, 3}));

  batch.Build(StepPlan{});
  EXPECT_EQ(batch.num_rows(), 0);
  EXPECT_EQ(batch.row_begin(), std::vector<int32_t>{0});
}

// Rows of logits, whatever rows of the step they are of.
TEST(RaggedBatchTest, HeadSegmentsAreRunsOfRowsOfLogits) {
  StepPlan plan;
  const auto add = [&](int32_t num_rows, AdapterSlot adapter, int32_t num_base_rows) {
    PlannedSequence sequence;
    sequence.adapter_slot = adapter;
    sequence.token_begin = static_cast<int32_t>(plan.tokens.size());
    sequence.num_tokens = sequence.num_prompt_rows = num_rows;
    sequence.num_base_rows = num_base_rows;
    sequence.page_begin = static_cast<int32_t>(plan.pages.size());
    sequence.num_pages = 1;
    plan.tokens.insert(plan.tokens.end(), static_cast<size_t>(num_rows), 7);
    plan.pages.push_back(static_cast<int32_t>(plan.pages.size()));
    plan.sequences.push_back(sequence);
  };
  add(3, 5, 1);           // rows 0 to 2, of which the first is the base's
  add(2, kNoAdapter, 0);  // 3, 4
  add(2, 6, 0);           // 5, 6
  add(2, 7, 0);           // 7, 8
  RaggedBatch batch(8);
  batch.Build(plan);
  const auto changes_head = [](int32_t slot) { return slot != 6; };
  const auto told = [&](const std::vector<int32_t>& rows, int32_t rows_max = 64) {
    std::string text;
    for (const LoraSegment& segment : batch.HeadSegments(rows, changes_head, rows_max)) {
      text += std::to_string(segment.row_begin) + "-" + std::to_string(segment.row_end) + ":" +
              std::to_string(segment.adapter_slot) + " ";
    }
    return text;
  };
  EXPECT_EQ(told({0, 1, 2, 3, 4, 5, 6, 7, 8}), "1-3:5 7-9:7 ");
  EXPECT_EQ(told({8, 2, 1, 6, 0}), "0-1:7 1-3:5 ");
  EXPECT_EQ(told({1, 2, 7, 8}, 1), "0-1:5 1-2:5 2-3:7 3-4:7 ");
  EXPECT_EQ(told({0, 3, 5}), "");
  EXPECT_EQ(told({}), "");
}

TEST(RaggedBatchTest, BaseRowsSplitNoSegmentOfTheirOwn) {
  StepPlan plan;
  plan.tokens = {1, 2, 3};
  plan.pages = {0, 1, 2};
  plan.sequences = {Planned(1, 0, 1, 0, 0, 1), Planned(kNoAdapter, 1, 1, 0, 1, 1),
                    Planned(1, 2, 1, 0, 2, 1)};
  RaggedBatch batch(1);
  batch.Build(plan);
  ASSERT_EQ(batch.segments().size(), 2u);
  EXPECT_EQ(batch.segments()[1].row_begin, 2);
}

TEST(RaggedBatchTest, PromptsComeLast) {
  StepPlan plan;
  plan.tokens = {10, 11, 12, 13, 14};
  plan.pages = {0, 1, 2, 3};
  plan.sequences = {Planned(1, 0, 2, 0, 0, 1), Planned(1, 2, 1, 3, 1, 1), Planned(3, 3, 1, 2, 2, 1),
                    Planned(3, 4, 1, 0, 3, 1)};
  plan.sequences[0].num_prompt_rows = 2;
  plan.sequences[3].num_prompt_rows = 1;
  for (PlannedSequence& sequence : plan.sequences) sequence.samples = true;
  RaggedBatch batch(4);
  batch.Build(plan);
  EXPECT_EQ(batch.tokens(), (std::vector<int32_t>{12, 13, 10, 11, 14}));
  EXPECT_EQ(batch.row_begin(), (std::vector<int32_t>{0, 1, 2, 4, 5}));
  EXPECT_EQ(batch.row_page(), (std::vector<int32_t>{1, 2, 0, 0, 3}));
  EXPECT_EQ(batch.kv_tokens(), (std::vector<int32_t>{4, 3, 2, 1}));
  EXPECT_EQ(batch.arrays().num_given, 2);
  const auto rows = [](const std::vector<LoraSegment>& segments) {
    std::vector<int32_t> rows;
    for (const LoraSegment& one : segments) {
      rows.insert(rows.end(), {one.adapter_slot, one.row_begin, one.row_end});
    }
    return rows;
  };
  EXPECT_EQ(rows(batch.segments()), (std::vector<int32_t>{1, 0, 1, 3, 1, 2}));
  EXPECT_EQ(rows(batch.prompt_segments()), (std::vector<int32_t>{1, 2, 4, 3, 4, 5}));
  // In the order of the plan.
  EXPECT_EQ(batch.sample_rows(), (std::vector<int32_t>{3, 0, 1, 4}));
  EXPECT_EQ(batch.first_row(0), 2);
  EXPECT_EQ(batch.first_row(2), 1);
}

TEST(RaggedBatchTest, RowsOfDraftsAreDrawnAfterToo) {
  StepPlan plan;
  plan.tokens = {1, 2, 3, 4, 5, 6};
  plan.pages = {0, 1};
  plan.sequences = {{.token_begin = 0, .num_tokens = 2, .num_pages = 1},
                    {.token_begin = 2,
                     .num_tokens = 4,
                     .num_drafts = 3,
                     .position_begin = 4,
                     .page_begin = 0,
                     .num_pages = 2,
                     .samples = true}};
  RaggedBatch batch(4);
  batch.Build(plan);
  EXPECT_EQ(batch.sample_rows(), (std::vector<int32_t>{2, 3, 4, 5}));
  EXPECT_EQ(batch.positions(), (std::vector<int32_t>{0, 1, 4, 5, 6, 7}));
  EXPECT_EQ(batch.arrays().num_given, 0);
}

TEST(RaggedBatchTest, RowsBeforeAnAdapterActsHaveNoSegment) {
  StepPlan plan;
  plan.tokens = {1, 2, 3, 4, 5, 6, 7};
  plan.pages = {0, 1, 2};
  plan.sequences = {
      {.adapter_slot = 2, .token_begin = 0, .num_tokens = 1, .num_base_rows = 1, .num_pages = 1},
      {.adapter_slot = 2,
       .token_begin = 1,
       .num_tokens = 4,
       .num_prompt_rows = 4,
       .num_base_rows = 3,
       .page_begin = 1,
       .num_pages = 1},
      {.adapter_slot = 2,
       .token_begin = 5,
       .num_tokens = 2,
       .num_prompt_rows = 2,
       .page_begin = 2,
       .num_pages = 1}};
  RaggedBatch batch(4);
  batch.Build(plan);
  EXPECT_TRUE(batch.segments().empty());
  ASSERT_EQ(batch.prompt_segments().size(), 1u);
  EXPECT_EQ(batch.prompt_segments()[0].row_begin, 4);
  EXPECT_EQ(batch.prompt_segments()[0].row_end, 7);
}

TEST(RaggedBatchDeathTest, RefusesRowsPastTheirPages) {
  StepPlan plan;
  plan.tokens = {1, 2};
  plan.pages = {0};
  plan.sequences = {Planned(kNoAdapter, 0, 2, 3, 0, 1)};
  RaggedBatch batch(4);
  EXPECT_DEATH(batch.Build(plan), "past the sequence's pages");
}

TEST(RaggedBatchDeathTest, RefusesAChunkOfGivenAndDrawnRows) {
  StepPlan plan;
  plan.tokens = {1, 2};
  plan.pages = {0};
  plan.sequences = {Planned(kNoAdapter, 0, 2, 0, 0, 1)};
  plan.sequences[0].num_prompt_rows = 1;
  RaggedBatch batch(4);
  EXPECT_DEATH(batch.Build(plan), "drawn rows in one chunk");
}

TEST(SequenceSamplerTest, CountsOnlyForPenaltiesAndResumesWhereItWas) {
  SequenceStart start;
  start.prompt_tokens = {5, 6, 5};
  start.sampling.seed = 9;
  SequenceSampler plain;
  plain.Start(start, /*vocab_size=*/100);
  plain.Accept(5);
  EXPECT_EQ(plain.Row({}).num_banned, 0);
  EXPECT_EQ(plain.Row({}).num_counts, 0);
  EXPECT_EQ(plain.Row({}).draw_idx, 1u);

  start.sampling.presence_penalty = 1.0f;
  SequenceSampler whole, resumed;
  whole.Start(start, /*vocab_size=*/100);
  for (const int32_t token : {6, 8, 8}) whole.Accept(token);
  start.output_tokens = {6, 8, 8};
  resumed.Start(start, /*vocab_size=*/100);
  for (SequenceSampler* sampler : {&whole, &resumed}) {
    const SamplingRow row = sampler->Row({});
    EXPECT_EQ(row.draw_idx, 3u);
    ASSERT_EQ(row.num_counts, 3);
    EXPECT_EQ(row.counts[0].token, 5);
    EXPECT_TRUE(row.counts[0].in_prompt);
    EXPECT_EQ(row.counts[1].num_output, 1);
    EXPECT_FALSE(row.counts[2].in_prompt);
    EXPECT_EQ(row.counts[2].num_output, 2);
  }
  start.output_tokens.clear();
  resumed.Start(start, /*vocab_size=*/100);  // takes the slot again
  EXPECT_EQ(resumed.Row({}).draw_idx, 0u);
  EXPECT_EQ(resumed.Row({}).num_counts, 2);
}

// However many tokens there are, what goes with a draw is a bit for each.
TEST(SequenceSamplerTest, AMaskHoldsWhatIsAllowedBesideWhatThePlanBansAndMasks) {
  constexpr int32_t kVocab = 40;
  SequenceStart start;
  start.sampling.allowed_tokens = {3, 33, 3, 38};
  SequenceSampler sampler;
  sampler.Start(start, kVocab);
  const auto tokens_of = [](const SamplingRow& row) {
    std::vector<int32_t> tokens;
    for (int32_t token = 0; token < kVocab; ++token) {
      if (IsInMask(row.mask, token)) tokens.push_back(token);
    }
    return tokens;
  };
  const std::vector<int32_t> banned = {1};
  const SamplingRow row = sampler.Row(banned);
  EXPECT_EQ(row.num_banned, 1);
  EXPECT_EQ(row.banned[0], 1);
  EXPECT_EQ(tokens_of(row), (std::vector<int32_t>{3, 33, 38}));
  EXPECT_EQ(tokens_of(sampler.RowAhead()), (std::vector<int32_t>{3, 33, 38}));
  const std::vector<uint32_t> mask = {0xFFu, 0x2u};
  EXPECT_EQ(tokens_of(sampler.Row({}, mask.data())), (std::vector<int32_t>{3, 33}));
  start.sampling.allowed_tokens = {};
  sampler.Start(start, kVocab);
  EXPECT_EQ(sampler.Row({}).mask, nullptr);
  EXPECT_EQ(sampler.Row({}, mask.data()).mask, mask.data());
}

}  // namespace
}  // namespace graft
