#include "placement/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace graft {
namespace {

TEST(CostModelTest, FitsALineAndSaysHowWell) {
  const CostLine exact = FitLine(std::vector<double>{0, 1, 2}, std::vector<double>{5, 7, 9});
  EXPECT_DOUBLE_EQ(exact.base_ms, 5.0);
  EXPECT_DOUBLE_EQ(exact.ms_per_unit, 2.0);
  EXPECT_DOUBLE_EQ(exact.r_squared, 1.0);
  const CostLine rough = FitLine(std::vector<double>{0, 1, 2}, std::vector<double>{1, 0, 4});
  EXPECT_DOUBLE_EQ(rough.ms_per_unit, 1.5);  // (-1 * -2/3 + 1 * 7/3) / 2
  EXPECT_NEAR(rough.base_ms, 1.0 / 6.0, 1e-12);
  // Predicted 1/6, 5/3, 19/6: residuals 25/36 + 100/36 + 25/36 = 25/6; total 4/9 + 25/9 + 49/9.
  EXPECT_NEAR(rough.r_squared, 1.0 - (25.0 / 6.0) / (78.0 / 9.0), 1e-12);
}

TEST(CostModelTest, OneSizeHasTheirMean) {
  const CostLine line = FitLine(std::vector<double>{3, 3}, std::vector<double>{4, 6});
  EXPECT_DOUBLE_EQ(line.At(3), 5.0);
  EXPECT_DOUBLE_EQ(line.ms_per_unit, 0.0);
}

TEST(CostModelTest, FitsColumnsNoneBelowNothing) {
  const std::vector<std::vector<double>> rows = {{1, 0, 0}, {1, 1, 0}, {1, 0, 2}, {1, 3, 1}};
  const auto fitted = FitColumns(rows, std::vector<double>{5, 7, 11, 14});  // 5 + 2 a + 3 b
  ASSERT_TRUE(fitted.ok()) << fitted.status().ToString();
  EXPECT_NEAR((*fitted)[0], 5.0, 1e-9);
  EXPECT_NEAR((*fitted)[1], 2.0, 1e-9);
  EXPECT_NEAR((*fitted)[2], 3.0, 1e-9);
  const auto falling = FitColumns({{1, 0}, {1, 1}, {1, 2}}, std::vector<double>{3, 2, 1});
  ASSERT_TRUE(falling.ok());
  EXPECT_NEAR((*falling)[0], 66.0 / 49.0, 1e-9) << "the column that would be negative is left out";
  EXPECT_EQ((*falling)[1], 0.0);
  const auto relative = FitColumns({{1}, {1}}, std::vector<double>{1, 3});
  ASSERT_TRUE(relative.ok());
  EXPECT_NEAR((*relative)[0], 1.2, 1e-9) << "20 % above the one, 60 % below the other";
}

TEST(CostModelTest, RefusesMeasurementsThatDoNotTellCostsApart) {
  EXPECT_FALSE(FitColumns({{1, 2}}, std::vector<double>{1}).ok());
  EXPECT_FALSE(FitColumns({{1, 2}, {2, 4}, {3, 6}}, std::vector<double>{1, 2, 3}).ok());
  // One column is another's multiple, or the sum of two, up to rounding.
  const std::vector<double> ms = {1.3, 1.7, 2.9, 3.1, 4.3};
  EXPECT_FALSE(
      FitColumns({{1, 0.1, 0.3}, {1, 0.7, 2.1}, {1, 1.3, 3.9}, {1, 1.9, 5.7}, {1, 2.3, 6.9}}, ms)
          .ok());
  EXPECT_FALSE(
      FitColumns({{1, 0.1, 1.1}, {1, 0.7, 1.7}, {1, 1.3, 2.3}, {1, 1.9, 2.9}, {1, 2.3, 3.3}}, ms)
          .ok());
}

TEST(CostModelTest, UnitsOfLoraArePaddedOrSummed) {
  BatchRanks ranks;
  for (const int32_t rank : {8, 64, 0}) ranks.Add(rank);
  CostModel costs;
  EXPECT_DOUBLE_EQ(costs.UnitsOf(ranks), 72.0);
  costs.pads = true;
  EXPECT_DOUBLE_EQ(costs.UnitsOf(ranks), 3 * 64.0);
}

TEST(CostModelTest, GoesThroughJson) {
  CostModel costs;
  costs.pads = true;
  costs.decode = {31.8, 0.004, 0.96};
  costs.step_ms_per_row = 0.25;
  costs.load_ms_per_rank = 0.5;
  costs.step_ms_per_prompt_pair = 1e-6;
  costs.step_ms_per_prompt_unit = 1e-3;
  costs.step_ms_with_adapters = 0.25;
  costs.step_ms_with_prompts = 0.5;
  costs.served = {.first_token_ms = 2.5, .step_ms = -0.25, .ms_per_row = 0.125};
  costs.served.decode_slowness = {1, 1.5};
  costs.served.prompt_slowness = {1, 1.25};
  const auto parsed = ParseJson(ToJson(costs).dump());
  ASSERT_TRUE(parsed.ok());
  const auto read = CostModelFromJson(*parsed);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(ToJson(*read).dump(), ToJson(costs).dump());
}

TEST(CostModelTest, ReadsFilesFromBeforeServedRequestsWereTimed) {
  Json json = *ParseJson(ToJson(CostModel()).dump());
  json.erase("served");
  json["step"].erase("ms_per_prompt_pair");
  json["step"].erase("ms_per_prompt_unit");
  json["step"].erase("ms_with_adapters");
  json["step"].erase("ms_with_prompts");
  const auto read = CostModelFromJson(json);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(ToJson(*read).dump(), ToJson(CostModel()).dump());
}

TEST(CostModelTest, PromptsCostByTheirTokensRanksAndPairs) {
  StepWork work;
  work.Add(8, 5, 100);  // four further rows, which see some 102 tokens each
  work.Add(16, 1, 10);
  EXPECT_EQ(work.prompt_tokens, 4);
  EXPECT_EQ(work.context_tokens, 105 + 11);
  EXPECT_EQ(work.prompt_pairs, 4 * 102);
  CostModel costs;
  EXPECT_DOUBLE_EQ(costs.PromptUnitsOf(work), 4 * 8.0);
  costs.step_ms_per_prompt_token = 1.0;
  costs.step_ms_per_prompt_pair = 0.01;
  costs.step_ms_per_prompt_unit = 0.1;
  EXPECT_DOUBLE_EQ(costs.PromptMs(work), 4.0 + 4.08 + 3.2);
  costs.pads = true;
  EXPECT_DOUBLE_EQ(costs.PromptUnitsOf(work), 4 * 16.0);
}

TEST(CostModelTest, AnyAdapterAndAnyPromptCostOnce) {
  CostModel costs;
  costs.step_ms_with_adapters = 0.25;
  costs.step_ms_with_prompts = 0.5;
  const CostModel without;
  const auto more_ms = [&](const StepWork& work) {
    return costs.ExecutorMs(work) - without.ExecutorMs(work);
  };
  StepWork base, decode, prompts;
  base.Add(0, 1, 10);
  for (int i = 0; i < 2; ++i) decode.Add(8, 1, 10);
  for (int i = 0; i < 2; ++i) prompts.Add(8, 5, 0);
  EXPECT_DOUBLE_EQ(more_ms(base), 0.0);
  EXPECT_NEAR(more_ms(decode), 0.25, 1e-12);
  EXPECT_NEAR(more_ms(prompts), 0.75, 1e-12);
}

TEST(CostModelTest, ServingAddsToStepsAndRunnersOfAMachineSlowEachOther) {
  CostModel costs;
  StepWork work;
  for (int i = 0; i < 3; ++i) work.Add(8, 1, 100);
  const double executor_ms = costs.ExecutorMs(work);
  EXPECT_DOUBLE_EQ(costs.StepMs(work), executor_ms);
  costs.served = {.step_ms = 0.5, .ms_per_row = 0.125};
  EXPECT_DOUBLE_EQ(costs.StepMs(work), executor_ms + 0.75);
  costs.served.step_ms = -100.0;
  EXPECT_GT(costs.StepMs(work), 0.0) << "a step takes some time";
  EXPECT_DOUBLE_EQ(costs.served.DecodeSlowness(3), 1.0) << "not measured";
  costs.served.decode_slowness = {1.0, 1.25, 1.5};
  EXPECT_DOUBLE_EQ(costs.served.DecodeSlowness(1), 1.0);
  EXPECT_DOUBLE_EQ(costs.served.DecodeSlowness(2), 1.25);
  EXPECT_DOUBLE_EQ(costs.served.DecodeSlowness(6), 3.0) << "six share what three get";
}

TEST(CostModelTest, NamesTheFieldThatIsWrong) {
  Json json = *ParseJson(ToJson(CostModel()).dump());
  json["decode"]["base_ms"] = -1;
  EXPECT_THAT(CostModelFromJson(json).status().message(), testing::HasSubstr("decode.base_ms"));
  json["decode"].erase("base_ms");
  EXPECT_THAT(CostModelFromJson(json).status().message(), testing::HasSubstr("graft profile"));
  json = *ParseJson(ToJson(CostModel()).dump());
  json["served"]["decode_slowness"] = {1.0, 0.5};
  EXPECT_THAT(CostModelFromJson(json).status().message(),
              testing::HasSubstr("served.decode_slowness"));
  json["served"].erase("step_ms");
  EXPECT_THAT(CostModelFromJson(json).status().message(), testing::HasSubstr("served.step_ms"));
  EXPECT_FALSE(CostModelFromJson(Json::array()).ok());
  EXPECT_THAT(ReadCostModel("/no/such/costs.json").status().message(),
              testing::HasSubstr("/no/such/costs.json"));
}

}  // namespace
}  // namespace graft
