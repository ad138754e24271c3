// StepSize on machines that are lines, or that run large products better than small ones.
#include "engine/step_size.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <vector>

namespace graft {
namespace step_size_test {

constexpr double kUs = 1000.0;
constexpr double kMs = 1000.0 * kUs;

// What a step takes.
struct Machine {
  const char* name;
  double step_ns = 0.0;    // whatever is in it
  double stream_ns = 0.0;  // a row of a stream
  double with_prompts_ns = 0.0;
  double row_ns = 0.0;     // a row of a prompt, among many
  double half_rows = 0.0;  // with so few rows one takes twice as long

  double Ns(double streams, double rows) const {
    const double prompts = rows == 0.0 ? 0.0 : with_prompts_ns + (rows + half_rows) * row_ns;
    return step_ns + streams * stream_ns + prompts;
  }
};
// About Llama-3.1-8B on an H200: weights are read in 4 ms.
constexpr Machine kGpu = {"gpu", 4.0 * kMs, 20.0 * kUs, 2.0 * kMs, 20.0 * kUs, 100.0};
// A row takes as long wherever it is.
constexpr Machine kLine = {"line", 0.0, 3.0 * kMs, 0.0, 3.0 * kMs, 0.0};

StepPlan PlanOf(int streams, int rows) {
  StepPlan plan;
  for (int i = 0; i < streams; ++i) plan.sequences.push_back({.num_tokens = 1});
  if (rows > 0) plan.sequences.push_back({.num_tokens = rows, .num_prompt_rows = rows});
  plan.tokens.resize(static_cast<size_t>(streams + rows));
  return plan;
}

// A StepSize that has seen the machine's steps up to `rows_most`.
StepSize Taught(const Machine& machine, int rows_most = 16384) {
  StepSize size;
  const auto learn = [&](int streams, int rows) {
    size.Learn(PlanOf(streams, rows), std::llround(machine.Ns(streams, rows)));
  };
  for (const int streams : {1, 64, 128, 256}) learn(streams, 0);
  for (int rows = 512; rows <= rows_most; rows *= 2) learn(4, rows);
  return size;
}

struct Load {
  const char* name;
  int streams = 0;
  int stream_tokens = 1;
  int prompts = 0;
  int prompt_rows = 0;
  int prompt_tokens = 1;
};

StepDemand DemandOf(const Load& load) {
  StepDemand demand;
  for (int i = 0; i < load.streams; ++i) demand.AddStream(load.stream_tokens);
  for (int i = 0; i < load.prompts; ++i) {
    demand.AddPrompts(1, load.prompt_rows, load.prompt_tokens);
  }
  return demand;
}

struct Case {
  Machine machine;
  Load load;
  int rows_max;
  int at_least, at_most;  // the rows chosen
};

void PrintTo(const Case& one, std::ostream* stream) {
  *stream << one.load.name << " on a " << one.machine.name;
}

class StepSizeTest : public testing::TestWithParam<Case> {};

// The choice lies where it is expected, and no other size is predicted to be better by more than a
// percent.
TEST_P(StepSizeTest, Chooses) {
  const Case& one = GetParam();
  const StepSize size = Taught(one.machine);
  const StepDemand demand = DemandOf(one.load);
  const int32_t chosen = size.RowsFor(demand, one.rows_max);
  EXPECT_GE(chosen, one.at_least);
  EXPECT_LE(chosen, one.at_most);
  const double chosen_ns = size.MeanEndNs(demand, chosen);
  for (int rows = StepSize::kRowsMin; rows <= one.rows_max; rows += 37) {
    EXPECT_LE(chosen_ns, 1.01 * size.MeanEndNs(demand, rows)) << rows << " rows for " << chosen;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Loads, StepSizeTest,
    testing::Values(
        // Alone it ends soonest by the fewest steps, and these are alike.
        Case{kGpu, {"a lone long prompt", 0, 1, 1, 32768, 128}, 16384, 16384, 16384},
        Case{kGpu, {"a prompt of a step and a bit", 0, 1, 1, 18000, 128}, 16384, 9000, 9000},
        // Answers outlive the prompts: larger steps save streams and prompts a step each.
        Case{kGpu, {"a burst with answers", 0, 1, 128, 512, 128}, 16384, 12288, 16384},
        // Each ends with its first token: the early ones must not wait for the late ones.
        Case{kGpu, {"a burst without answers", 0, 1, 128, 512, 1}, 16384, 3072, 8192},
        // Here it does not matter, as long as no step holds two of them.
        Case{kLine, {"a burst without answers", 0, 1, 128, 512, 1}, 16384, 64, 512},
        // All streams get fewer tokens meanwhile, but all of them get the rest sooner.
        Case{kGpu, {"a long prompt beside streams", 256, 500, 1, 32768, 200}, 16128, 8192, 16128},
        Case{kGpu, {"a burst beside streams", 256, 384, 164, 512, 100}, 16128, 12288, 16128},
        // Streams that are about to end would wait for a prompt that is not.
        Case{kGpu, {"a long prompt beside ends", 256, 1, 1, 32768, 200}, 16128, 64, 512},
        Case{kGpu, {"short prompts that fit", 64, 100, 4, 100, 100}, 16320, 16320, 16320},
        Case{kGpu, {"less room than the least", 64, 100, 4, 100, 100}, 20, 20, 20}));

TEST(StepSizeGrowthTest, BeginsModeratelyAndDoubles) {
  StepSize size;
  const StepDemand demand = DemandOf({"burst", 0, 1, 128, 512, 128});
  std::vector<int32_t> chosen;
  for (int step = 0; step < 7; ++step) {
    const int32_t rows = size.RowsFor(demand, 16384);
    chosen.push_back(rows);
    size.Learn(PlanOf(8, 0), std::llround(kGpu.Ns(8, 0)));
    size.Learn(PlanOf(8, rows), std::llround(kGpu.Ns(8, rows)));
  }
  EXPECT_EQ(chosen, (std::vector<int32_t>{512, 1024, 2048, 4096, 8192, 16384, 16384}));
}

// A machine that is slow beyond some size, by a cache that is too small for example.
TEST(StepSizeGrowthTest, StopsWhereLargerStepsDoNotPay) {
  StepSize size;
  const StepDemand demand = DemandOf({"burst", 0, 1, 128, 512, 128});
  int num_large = 0;
  for (int step = 0; step < 200; ++step) {
    const int32_t rows = size.RowsFor(demand, 16384);
    const double slow = rows > 5000 ? 3.0 : 1.0;
    size.Learn(PlanOf(8, 0), std::llround(kGpu.Ns(8, 0)));
    size.Learn(PlanOf(8, rows), std::llround(slow * kGpu.Ns(8, rows)));
    num_large += rows > 5000 ? 1 : 0;
    if (step > 10) {
      EXPECT_GE(rows, 1024);
    }
  }
  EXPECT_GE(num_large, 2) << "tried again";
  EXPECT_LE(num_large, 12);
}

TEST(StepSizeAnswersTest, ExpectsWhatAnswersOfLateHad) {
  StepSize size;
  EXPECT_EQ(size.TokensOf(4000), 4000.0);
  EXPECT_EQ(size.TokensOf(0), 1.0);
  for (int i = 0; i < 300; ++i) size.LearnAnswer(100);
  EXPECT_NEAR(size.TokensOf(4000), 100.0, 1e-6);
  EXPECT_EQ(size.TokensOf(30), 30.0);
  for (int i = 0; i < 300; ++i) size.LearnAnswer(10);
  EXPECT_NEAR(size.TokensOf(4000), 10.0, 1.0);
}

// Two prompts of 1,000 rows with answers of 11 tokens, beside a stream of 5. A step takes 1,000 ns,
// 100 for each sequence that decodes, and 10 for each row of a prompt.
TEST(StepSizeModelTest, PredictsEnds) {
  StepSize size;
  for (const int streams : {1, 9}) size.Learn(PlanOf(streams, 0), 1000 + 100 * streams);
  for (const int rows : {500, 1000, 2000}) size.Learn(PlanOf(1, rows), 1100 + 10 * rows);
  StepDemand demand;
  demand.AddStream(5);
  demand.AddPrompts(2, 1000, 11);
  // Two steps of 11,000 and shorter ones, the rows that decode until then beside.
  const double stream = 22'000 + 3'000 + 100 * (5 + 4 + 3);
  const double first = 22'000 + 9'000 + 100 * (5 + 10 + 9);
  const double second = 22'000 + 10'000 + 100 * (5 + 10 + 10);
  EXPECT_NEAR(size.MeanEndNs(demand, 1000), (stream + first + second) / 3.0, 50.0);
  const double stream_by_one = 21'000 + 4'000 + 100 * (5 + 4 + 4);
  const double both = 21'000 + 10'000 + 100 * (5 + 10 + 10);
  EXPECT_NEAR(size.MeanEndNs(demand, 2000), (stream_by_one + 2 * both) / 3.0, 50.0);
}

}  // namespace step_size_test
}  // namespace graft
