// Tests of the executor with the demo model and three of its adapters. A sequence's tokens and
// log-probabilities have the same bits alone and in company, launched kernel by kernel and replayed
// from graphs, on the CPU and on a GPU.
#include "executor/model_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "executor/model_executor_testing.h"
#include "tensor/allocations.h"

namespace graft {
namespace model_executor_test {

// Runs `wanted` together and draws `num_tokens` each. Every step is begun before the step in front
// of it is finished.
std::vector<Drawn> GenerateAhead(Executor& executor, const std::vector<Wanted>& wanted,
                                 size_t num_tokens) {
  std::vector<Drawn> drawn(wanted.size());
  std::array<StepPlan, 2> plans;
  for (size_t step = 0; step < num_tokens; ++step) {
    StepPlan& plan = plans[step % 2];
    plan = {.step_id = step, .ahead = step > 0};
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Drawn unknown = {.tokens = std::vector<int32_t>(step, -1)};
      AddSequence(wanted[i], unknown, static_cast<int32_t>(i), &plan);
    }
    executor.Begin(plan);
    if (step > 0) AppendDrawn(plans[(step - 1) % 2], executor.Finish(), &drawn);
  }
  AppendDrawn(plans[(num_tokens - 1) % 2], executor.Finish(), &drawn);
  return drawn;
}

TEST_P(ModelExecutorTest, CompanyDoesNotChangeABit) {
  const auto executor = MakeExecutor();
  const std::vector<Wanted> company = Company();
  const std::vector<Drawn> together = Generate(*executor, company, 12);
  EXPECT_NE(together[0].tokens, together[2].tokens) << "adapters matter";
  // The same with prompts and decode rows in the same steps.
  EXPECT_EQ(Generate(*executor, company, 12, 1), together);
  for (size_t i = 0; i < company.size(); ++i) {
    EXPECT_EQ(Generate(*executor, {company[i]}, 12)[0], together[i]) << i;
  }
}

// Every sequence has up to four drafts a step: its next tokens as `known` has them, of which now
// and then one is wrong.
std::vector<Drawn> GenerateWithDrafts(Executor& executor, const std::vector<Wanted>& wanted,
                                      const std::vector<Drawn>& known) {
  std::vector<Drawn> drawn(wanted.size());
  size_t num_further = 0;
  for (size_t step = 0;; ++step) {
    StepPlan plan;
    plan.step_id = step;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const size_t num_drawn = drawn[i].tokens.size();
      const size_t num_left = known[i].tokens.size() - num_drawn;
      if (num_left == 0) continue;
      AddSequence(wanted[i], drawn[i], static_cast<int32_t>(i), &plan);
      for (size_t d = 0; num_drawn > 0 && d < 4 && d + 1 < num_left; ++d) {
        const int32_t wrong = d == (step + i) % 5 ? 1 : 0;
        plan.tokens.push_back(known[i].tokens[num_drawn + d] + wrong);
        ++plan.sequences.back().num_tokens;
        ++plan.sequences.back().num_drafts;
        ++plan.num_drafts;
      }
    }
    if (plan.sequences.empty()) break;
    const StepResult result = executor.Run(plan);
    AppendDrawn(plan, result, &drawn);
    for (size_t i = 0; i < plan.sequences.size(); ++i) {
      Drawn& one = drawn[static_cast<size_t>(plan.sequences[i].sequence_slot)];
      for (const DrawnToken& further : result.sequences[i].further) {
        one.tokens.push_back(further.token);
        one.logprobs.push_back(further.logprob);
        ++num_further;
      }
    }
  }
  EXPECT_GT(num_further, wanted.size() * 3);
  return drawn;
}

TEST_P(ModelExecutorTest, DraftsGiveTheBitsOfSingleSteps) {
  const auto executor = MakeExecutor();
  const std::vector<Drawn> single = Generate(*executor, Company(), 16);
  EXPECT_EQ(GenerateWithDrafts(*executor, Company(), single), single);
  if (std::get<0>(GetParam()) == DeviceKind::kCpu) return;
  executor->RecordGraphs();
  EXPECT_EQ(GenerateWithDrafts(*executor, Company(), single), single);
}

// All tokens may come, which is not known in time for every other question.
class LateMasks : public MaskSource {
 public:
  bool FillMask(const StepPlan& /*plan*/, size_t /*idx*/, std::span<uint32_t> words) override {
    std::fill(words.begin(), words.end(), ~uint32_t{0});
    return num_asked_++ % 2 == 1;
  }

 private:
  std::atomic<int> num_asked_{0};
};

TEST_P(ModelExecutorTest, WhatIsLeftOutDrawsTheSameInALaterStep) {
  const std::vector<Wanted> wanted = Company();
  constexpr size_t kTokens = 4;
  const std::vector<Drawn> expected = Generate(*MakeExecutor(), wanted, kTokens);
  LateMasks masks;
  const auto executor = MakeExecutor();
  executor->SetMasks(&masks);
  std::vector<Drawn> drawn(wanted.size());
  int num_left_out = 0;
  for (uint64_t step = 0; step < 1000; ++step) {
    StepPlan plan;
    plan.step_id = step;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (drawn[i].tokens.size() == kTokens) continue;
      AddSequence(wanted[i], drawn[i], static_cast<int32_t>(i), &plan);
      plan.sequences.back().has_mask = i % 2 == 0;
    }
    if (plan.sequences.empty()) break;
    const StepResult result = executor->Run(plan);
    for (size_t i = 0; i < plan.sequences.size(); ++i) {
      const SequenceResult& one = result.sequences[i];
      Drawn& out = drawn[static_cast<size_t>(plan.sequences[i].sequence_slot)];
      if (one.left_out) {
        EXPECT_TRUE(plan.sequences[i].has_mask);
        EXPECT_EQ(one.token, -1);
        ++num_left_out;
      } else {
        out.tokens.push_back(one.token);
        out.logprobs.push_back(one.logprob);
      }
    }
  }
  EXPECT_GT(num_left_out, 5);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(drawn[i].tokens, expected[i].tokens) << i;
    EXPECT_EQ(drawn[i].logprobs, expected[i].logprobs) << i;
  }
}

TEST_P(ModelExecutorTest, WhoIsInterruptedFindsTheStepAsItIs) {
  const auto executor = MakeExecutor();
  const Wanted wanted = Company()[2];
  StepPlan plan;
  AddSequence(wanted, {}, 0, &plan);
  const std::atomic<bool> interrupted{true};
  const std::atomic<bool> undisturbed{false};
  executor->Begin(plan);
  // An interrupted wait returns false as long as the step is not done.
  while (!executor->Wait(interrupted, kNever)) {
  }
  while (!executor->Wait(undisturbed, 0)) {
  }
  EXPECT_TRUE(executor->Wait(undisturbed, kNever));
  const int32_t token = executor->Finish().sequences[0].token;
  EXPECT_EQ(token, Generate(*executor, {wanted}, 1)[0].tokens[0]);
}

// What a thread's first step allocates: a CPU's room for rows of x, a GPU's for lists of tokens.
TEST_P(ModelExecutorTest, MemoryThatRunsOutCostsTheStepAlone) {
  const auto executor = MakeExecutor();
  const Wanted wanted = Company()[2];
  const std::vector<Drawn> expected = Generate(*executor, {wanted}, 3);
  StepPlan plan;
  AddSequence(wanted, {}, 0, &plan);
  plan.starts[0].sampling.logit_bias.assign(100, {5, 0.5f});
  StepResult failed;
  std::vector<Drawn> drawn;
  std::thread([&] {
    {
      const AllocationLimit limit({}, 0);
      failed = executor->Run(plan);
    }
    drawn = Generate(*executor, {wanted}, 3);
  }).join();
  EXPECT_EQ(failed.status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(failed.status.message(), ::testing::HasSubstr("--step-tokens-max"));
  ASSERT_EQ(failed.sequences.size(), 1u);
  EXPECT_EQ(failed.sequences[0].token, -1);
  EXPECT_EQ(drawn, expected);
}

TEST_P(ModelExecutorTest, EvictedAndReloadedAdaptersGiveTheVeryBits) {
  const std::vector<Wanted> company = Company();
  const std::vector<Drawn> resident = Generate(*MakeExecutor(), company, 12, 1);
  MovingAdapters moving(config_, weights_.types, *pool_, device_.stream().device);
  for (size_t i = 0; i < 3; ++i) {
    moving.Move(i, FolderOf(kAdapters[i]), {moving.slot(0), moving.slot(1), moving.slot(2)});
  }
  moving.Settle();
  const auto executor = MakeExecutor(&moving.loras());
  size_t step = 0;
  const auto drawn = Generate(*executor, company, 12, 1, [&](std::vector<Wanted>& wanted) {
    const size_t i = step++ % 3;
    moving.Move(i, FolderOf(kAdapters[i]), {moving.slot(0), moving.slot(1), moving.slot(2)});
    moving.Settle();
    moving.Follow(company, &wanted);
  });
  EXPECT_EQ(drawn, resident);
}

TEST_P(ModelExecutorTest, AdaptersThatArriveDuringTheStepGiveTheVeryBits) {
  const std::vector<Wanted> company = Company();
  const std::vector<Drawn> resident = Generate(*MakeExecutor(), company, 12, 1);
  MovingAdapters moving(config_, weights_.types, *pool_, device_.stream().device);
  moving.SlowDown();
  const auto executor = MakeExecutor(&moving.loras(), {.arrivals = &moving.arrivals()});
  if (std::get<0>(GetParam()) == DeviceKind::kCuda) executor->RecordGraphs({}, 64);
  size_t num_blocked = 0;
  executor->SetWorkWhileBlocked([&num_blocked] { ++num_blocked; });
  EXPECT_EQ(GenerateOnArrivals(*executor, company, moving, Folders()), resident);
  const size_t num_steps = 12 + company.size() - 1;
  EXPECT_GT(num_blocked, 0u);
  EXPECT_LE(num_blocked, num_steps) << "once a step";
}

TEST_P(ModelExecutorTest, GraphsReplayTheVeryBits) {
  if (std::get<0>(GetParam()) == DeviceKind::kCpu) GTEST_SKIP() << "graphs are for GPUs";
  const std::vector<Wanted> company = Company();
  const std::vector<Drawn> launched = Generate(*MakeExecutor(), company, 12);
  const auto executor = MakeExecutor();
  executor->RecordGraphs();
  EXPECT_EQ(Generate(*executor, company, 12), launched);
  EXPECT_EQ(Generate(*executor, company, 12, 2), launched);
  // Smaller batches are padded to a graph's size. Other mixes of rows replay the same graphs.
  for (size_t i = 0; i < company.size(); i += 3) {
    EXPECT_EQ(Generate(*executor, {company[i]}, 12)[0], launched[i]) << i;
  }
  const std::vector<Wanted> base = {company[0], company[1]};
  EXPECT_EQ(Generate(*executor, base, 12),
            std::vector<Drawn>(launched.begin(), launched.begin() + 2));
}

TEST_P(ModelExecutorTest, WhatIsBegunAheadDrawsTheSame) {
  if (std::get<0>(GetParam()) == DeviceKind::kCpu) GTEST_SKIP() << "a CPU finishes a step first";
  const std::vector<Wanted> company = Company();
  const std::vector<Drawn> expected = Generate(*MakeExecutor(), company, 12);
  const auto executor = MakeExecutor();
  EXPECT_EQ(GenerateAhead(*executor, company, 12), expected);
  executor->RecordGraphs();
  EXPECT_EQ(GenerateAhead(*executor, company, 12), expected);
  EXPECT_EQ(Generate(*executor, company, 12), expected);
}

// There are more tiles of rows with an adapter than may go beside the products.
TEST_P(ModelExecutorTest, GraphsOfManyAdaptersReplayTheVeryBits) {
  if (std::get<0>(GetParam()) == DeviceKind::kCpu) GTEST_SKIP() << "graphs are for GPUs";
  std::vector<Wanted> many;
  for (int32_t i = 0; i < 19; ++i) many.push_back({{12, 800, 300 + i, 45}, i % 3});
  const std::vector<Drawn> launched = Generate(*MakeExecutor(), many, 24, 1);
  const auto executor = MakeExecutor();
  executor->RecordGraphs();
  EXPECT_EQ(Generate(*executor, many, 24, 1), launched);
}

// Batches of 64 rows and more are recorded for several bounds on LoRA's tiles: here nearly all rows
// have one adapter, then each of them one of three.
TEST_P(ModelExecutorTest, GraphsOfManyRowsReplayTheVeryBits) {
  if (std::get<0>(GetParam()) == DeviceKind::kCpu) GTEST_SKIP() << "graphs are for GPUs";
  for (const bool mixed : {false, true}) {
    std::vector<Wanted> many;
    for (int32_t i = 0; i < kSequencesMax; ++i) {
      const AdapterSlot slot = mixed ? i % 3 : i < 4 ? kNoAdapter : i < 70 ? 0 : 1;
      many.push_back({{12, 300 + i}, slot, i % 5 == 0 ? 0.8f : 0.0f});
    }
    const std::vector<Drawn> launched = Generate(*MakeExecutor(), many, 80, 1);
    const auto executor = MakeExecutor();
    executor->RecordGraphs();
    EXPECT_EQ(Generate(*executor, many, 80, 1), launched) << (mixed ? "mixed" : "one adapter");
  }
}

TEST_P(ModelExecutorTest, ProfilesItsParts) {
  const auto executor = MakeExecutor();
  StepPlan plan;
  plan.tokens = {5, 6};
  plan.pages = {0};
  PlannedSequence sequence;
  sequence.adapter_slot = 0;
  sequence.num_tokens = 2;
  sequence.num_pages = 1;
  sequence.samples = true;
  plan.sequences = {sequence};
  plan.starts = {{0, {}, {5, 6}, {}}};
  const ForwardTimes times = executor->Profile(plan);
  EXPECT_GT(times.gemm_ns, 0);
  EXPECT_GT(times.lora_ns, 0);
  EXPECT_GT(times.attention_ns, 0);
  EXPECT_GE(times.total_ns, times.gemm_ns + times.lora_ns + times.attention_ns);
}

TEST(DecodeGraphsTest, SizesAndBounds) {
  EXPECT_EQ(DecodeGraphs::BatchSizes(1), (std::vector<int32_t>{1}));
  EXPECT_EQ(DecodeGraphs::BatchSizes(20), (std::vector<int32_t>{1, 2, 4, 8, 16, 20}));
  EXPECT_EQ(DecodeGraphs::BatchSizes(96),
            (std::vector<int32_t>{1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 96}));
  EXPECT_EQ(DecodeGraphs::TilesBound(56, 1), 56);
  EXPECT_EQ(DecodeGraphs::TilesBound(64, 1), 16);
  EXPECT_EQ(DecodeGraphs::TilesBound(64, 16), 16);
  EXPECT_EQ(DecodeGraphs::TilesBound(64, 17), 32);
  EXPECT_EQ(DecodeGraphs::TilesBound(64, 33), 64);
  EXPECT_EQ(DecodeGraphs::TilesBound(65, 17), 17);
  EXPECT_EQ(DecodeGraphs::TilesBound(65, 18), 33);
  EXPECT_EQ(DecodeGraphs::TilesBound(65, 65), 65);
  EXPECT_EQ(DecodeGraphs::RankBound(0), 0);
  EXPECT_EQ(DecodeGraphs::RankBound(1), 16);
  EXPECT_EQ(DecodeGraphs::RankBound(17), 32);
  EXPECT_EQ(DecodeGraphs::RankBound(256), 256);
}

INSTANTIATE_TEST_SUITE_P(Devices, ModelExecutorTest, kExecutorDevices, NameOfDevice);

}  // namespace model_executor_test
}  // namespace graft
