// Adapters that act from their invocation in the prompt on (activated LoRA): what comes before is
// the base model's, and is shared with it.
#include "engine/engine_testing.h"

namespace graft {
namespace {

class EngineActivationTest : public EngineAdapterTest {
 protected:
  void SetUp() override {
    ExecutorLimits limits = TestLimits();
    limits.num_pages = 128;
    Make(limits);
    for (const char* const hash : {"plain", "later", "other"}) harness_->AddAdapter(hash);
    harness_->loader.SetInvocation("later", {40, 41});
    harness_->loader.SetInvocation("other", {42});
  }
  // Its answer is that of an adapter which acts from `position` on.
  int32_t Ask(const std::string& adapter, std::vector<int32_t> prompt, int32_t position,
              int32_t asked_position = 0) {
    Request request = harness_->MakeRequest(std::move(prompt), 6);
    request.UseAdapter(adapter);
    request.sampling.seed = SeedOfTenant("", 5);
    request.activation_position = asked_position;
    auto client = harness_->Submit(request);
    harness_->RunAll();
    client->Collect();
    EXPECT_TRUE(client->done());
    request.activation_position = position;
    EXPECT_EQ(client->output(), harness_->Reference(request));
    return client->last().usage.cached_tokens;
  }
};

std::vector<int32_t> Joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

constexpr int32_t kNowhere = 1 << 30;

TEST_F(EngineActivationTest, ActsFromTheStartOfTheLastInvocationOn) {
  const std::vector<int32_t> text = Prompt(18, 2);
  Ask("later", Joined(text, {40, 41, 7}), 18);
  Ask("later", Joined({40, 41}, Joined(text, {40, 41})), 20);
  Ask("later", Joined({40, 41}, text), 0);
  Ask("later", text, kNowhere);
  Ask("later", Joined(text, {40}), kNowhere);
  Ask("later", {40, 41}, 0);
  Ask("other", Joined(text, {42}), 18);
  Ask("plain", Joined(text, {40, 41, 42}), 0);
}

TEST_F(EngineActivationTest, ThePromptBeforeItIsSharedWithAllOthers) {
  const std::vector<int32_t> text = Prompt(21, 2);  // five pages and a token
  EXPECT_EQ(Ask("", text, 0), 0);
  EXPECT_EQ(Ask("later", Joined(text, {40, 41, 7, 8, 9}), 21), 20);
  EXPECT_EQ(Ask("other", Joined(text, {42, 7, 8, 9, 10}), 21), 20);
  EXPECT_EQ(Ask("", Joined(text, {42, 7, 8, 9, 10}), 0), 20);
  EXPECT_EQ(Ask("plain", Joined(text, {42, 7, 8, 9, 10}), 0), 0);
  // With itself it shares what it acted on, if it acts from the same place on.
  EXPECT_EQ(Ask("later", Joined(text, {40, 41, 7, 8, 9}), 21), 24);
  EXPECT_EQ(Ask("later", Joined(text, {40, 41, 7, 8, 9, 40, 41}), 26), 20);
}

TEST_F(EngineActivationTest, ARequestMaySayFromWhereOn) {
  const std::vector<int32_t> text = Prompt(18, 2);
  Ask("plain", text, 10, 10);
  EXPECT_EQ(Ask("plain", text, 10, 10), 16);
  EXPECT_EQ(Ask("plain", text, 11, 11), 8);
  EXPECT_EQ(Ask("", text, 0), 8);
  Ask("later", Joined(text, {40, 41, 7}), 5, 5);
}

TEST_F(EngineActivationTest, IsFoundOnceTheFolderIsRead) {
  const std::string key = harness_->AddUnread("folder", "unread");
  harness_->loader.SetInvocation("unread", {43});
  Request request = harness_->MakeRequest(Joined(Prompt(18, 2), {43, 5}), 6);
  request.UseAdapter(key);
  auto client = harness_->Submit(request);
  harness_->RunAll();
  client->Collect();
  request.UseAdapter("unread");
  request.activation_position = 18;
  EXPECT_EQ(client->output(), harness_->Reference(request));
}

}  // namespace
}  // namespace graft
