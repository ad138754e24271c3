// Requests of several adapters, by weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/content_sum.h"
#include "engine/engine_testing.h"

namespace graft {
namespace {

// Two adapters at once are a content of their own, as wide as the loader says.
class EngineSumTest : public EngineAdapterTest {
 protected:
  std::unique_ptr<TestClient> SubmitSum(std::vector<AdapterUse> adapters, int32_t prompt_tokens,
                                        int32_t tokens_max) {
    Request request = harness_->MakeRequest(Prompt(prompt_tokens), tokens_max);
    request.adapters = std::move(adapters);
    return harness_->Submit(std::move(request));
  }
  static std::string HashOf(const std::vector<AdapterUse>& adapters) {
    std::vector<AdapterPart> parts;
    for (const AdapterUse& use : adapters) {
      parts.push_back({.path = "", .hash = use.hash, .key = use.hash, .weight = use.weight});
    }
    return FakeLoader::HashOfSum(std::move(parts));
  }
};

TEST_F(EngineSumTest, ASumIsServedBesideItsPartsAndPrefixesTellThemApart) {
  Make();
  harness_->AddAdapter("a");
  harness_->AddAdapter("b");
  const std::vector<AdapterUse> sum = {{"a", 0.5f}, {"b", 2.0f}};
  const std::vector<AdapterUse> turned = {{"b", 2.0f}, {"a", 0.5f}};
  const std::vector<AdapterUse> other = {{"a", 0.5f}, {"b", 1.0f}};
  auto one = SubmitSum(sum, 24, 6);
  auto two = SubmitSum(other, 24, 6);
  auto part = Submit("a", 24, 6);
  harness_->RunAll();
  ExpectAnswered(*one, HashOf(sum));
  ExpectAnswered(*two, HashOf(other));
  ExpectAnswered(*part, "a");
  EXPECT_EQ(one->last().usage.cached_tokens, 0);
  // The same weights find the pages, in whatever order; other weights and the parts do not.
  auto again = SubmitSum(turned, 24, 6);
  auto fresh = SubmitSum({{"a", 0.5f}, {"b", -2.0f}}, 24, 6);
  harness_->RunAll();
  ExpectAnswered(*again, HashOf(sum));
  EXPECT_GT(again->last().usage.cached_tokens, 0);
  fresh->Collect();
  EXPECT_EQ(fresh->last().usage.cached_tokens, 0);
}

TEST_F(EngineSumTest, ASumSurvivesPreemptionAndTheEvictionOfItself) {
  ExecutorLimits limits = TestLimits();
  limits.adapters_max = 1;
  EngineOptions options = TestOptions();
  Make(limits, options);
  harness_->AddAdapter("a");
  harness_->AddAdapter("b");
  const std::vector<AdapterUse> sum = {{"a", 0.5f}, {"b", 2.0f}};
  for (int round = 0; round < 3; ++round) {
    auto one = SubmitSum(sum, 10, 8);
    auto part = Submit("b", 10, 8);
    harness_->RunAll();
    ExpectAnswered(*one, HashOf(sum));
    ExpectAnswered(*part, "b");
  }
  EXPECT_GT(harness_->loader.num_copies(), 3) << "they took turns";
}

TEST_F(EngineSumTest, WhoUnloadsAPartEndsTheSumForNewcomersAlone) {
  Make();
  harness_->AddAdapter("a");
  harness_->AddAdapter("b");
  const std::vector<AdapterUse> sum = {{"a", 0.5f}, {"b", 2.0f}};
  auto one = SubmitSum(sum, 10, 8);
  harness_->Step();
  harness_->adapters.Retire("b");
  Request late = harness_->MakeRequest(Prompt(10), 8);
  late.adapters = sum;
  EXPECT_EQ(harness_->engine.Submit(late, std::make_shared<TokenStream>()).code(),
            StatusCode::kNotFound);
  harness_->RunAll();
  ExpectAnswered(*one, HashOf(sum));
  harness_->Step();
  harness_->Step();
  EXPECT_EQ(harness_->adapters.num_contents(), 1) << "the sum and its part are forgotten";
}

TEST_F(EngineSumTest, PartsThatNobodyReadAreIdentifiedByTheSum) {
  Make();
  const std::string a = harness_->AddUnread("folder a", "aa");
  harness_->AddAdapter("b");
  auto one = SubmitSum({{a, 1.0f}, {"b", 2.0f}}, 10, 4);
  harness_->RunAll();
  ExpectAnswered(*one, HashOf({{"aa", 1.0f}, {"b", 2.0f}}));
  EXPECT_TRUE(harness_->adapters.Contains("aa"));
  harness_->loader.SetFolder("folder a", "");
  harness_->loader.ClearHost();
  auto two = SubmitSum({{"aa", 3.0f}, {"b", 2.0f}}, 10, 4);
  harness_->RunAll();
  two->Collect();
  EXPECT_EQ(two->last().status.code(), StatusCode::kNotFound) << "its folder is broken";
}

}  // namespace
}  // namespace graft
