#include "openai/chat_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/unwanted_work.h"
#include "openai/generation_plan.h"
#include "openai/openai_testing.h"
#include "openai/token_endpoints.h"

namespace graft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kBracketed[] =
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}{{ eos_token }}{% endfor %}";

class ChatTextTest : public testing::Test {
 protected:
  ApiContext Context() {
    ApiContext context = DemoContext(generator_, catalog_, metrics_, clock_);
    context.adapter_templates = templates_;
    return context;
  }
  ApiResult<GenerationPlan> Chat(Json more) {
    Json body = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"max_tokens", 4}};
    body.update(more);
    return Plan(body, /*is_chat=*/true);
  }
  ApiResult<GenerationPlan> Complete(Json more) {
    Json body = {{"prompt", "hi"}, {"max_tokens", 4}};
    body.update(more);
    return Plan(body, /*is_chat=*/false);
  }
  static std::string Prompt(ApiResult<GenerationPlan> plan) {
    if (!plan.ok()) return plan.error().message;
    return DemoTokenizer().Decode(plan->requests.at(0).prompt_tokens, false);
  }
  static std::vector<int32_t> Stops(ApiResult<GenerationPlan> plan) {
    return plan->requests.at(0).sampling.stop_token_ids;
  }

  FakeCatalog catalog_;
  std::shared_ptr<AdapterTemplates> templates_ = std::make_shared<AdapterTemplates>();

 private:
  ApiResult<GenerationPlan> Plan(const Json& body, bool is_chat) {
    const ApiContext context = Context();
    return PlanGeneration(context, RequestLimits(), key_, is_chat, DumpJson(body));
  }

  FakeGenerator generator_;
  Metrics metrics_;
  AtomicClock clock_;
  const ApiKey key_{{.tenant = "", .all_models = true, .models = {}}, 0};

 protected:
  Json Tokenized(const std::string& model) {
    const Json body = {{"model", model}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
    const ApiContext context = Context();
    return Json::parse(AnswerTokenize(context, RequestLimits(), key_, DumpJson(body)).body);
  }
};

TEST_F(ChatTextTest, AnAdaptersTemplateHoldsForItAlone) {
  const std::string base = Prompt(Chat({{"model", "demo"}}));
  catalog_.SetText("austen", {.chat_template = kBracketed});
  EXPECT_EQ(Prompt(Chat({{"model", "austen"}})), "[user] hi" + DemoTokenizer().eos_token());
  EXPECT_EQ(Prompt(Chat({{"model", "demo"}})), base);
  EXPECT_EQ(Prompt(Chat({{"model", "doyle"}})), base);
  catalog_.SetText("austen", {.chat_template = kBracketed, .eos_token = "<|start|>"});
  EXPECT_EQ(Prompt(Chat({{"model", "austen"}})), "[user] hi<|start|>");
  EXPECT_NE(Tokenized("austen")["tokens"], Tokenized("demo")["tokens"]);
  EXPECT_EQ(Tokenized("austen")["tokens"], Chat({{"model", "austen"}})->requests[0].prompt_tokens);
}

TEST_F(ChatTextTest, AnAdaptersStopTokensEndItsAnswers) {
  catalog_.SetText("austen", {.stop_token_ids = {5, 9}});
  EXPECT_THAT(Stops(Chat({{"model", "austen"}})), ElementsAre(5, 9));
  EXPECT_THAT(Stops(Complete({{"model", "austen"}, {"stop_token_ids", {9, 4}}})),
              ElementsAre(9, 4, 5));
  EXPECT_THAT(Stops(Complete({{"model", "austen"}, {"ignore_eos", true}})), IsEmpty());
  EXPECT_THAT(Stops(Complete({{"model", "demo"}})), IsEmpty());
}

TEST_F(ChatTextTest, ATemplateThatDoesNotParseForbidsChatAlone) {
  catalog_.SetText("austen", {.chat_template = "fine\n{% include 'x' %}", .stop_token_ids = {5}});
  auto chat = Chat({{"model", "austen"}});
  ASSERT_FALSE(chat.ok());
  EXPECT_EQ(chat.error().http_status, 400);
  EXPECT_THAT(chat.error().message, HasSubstr("This adapter's chat template cannot be used"));
  EXPECT_THAT(chat.error().message, HasSubstr("line 2"));
  EXPECT_THAT(Stops(Complete({{"model", "austen"}})), ElementsAre(5));
}

// The template is parsed once. What is found then must not depend on which client came first.
TEST_F(ChatTextTest, AClientThatLeavesSpoilsNoTemplateForOthers) {
  catalog_.SetText("austen", {.chat_template = "{% for m in messages %}{% for part in m.content %}"
                                               "{{ part.text }}{% endfor %}{% endfor %}"});
  {
    const std::atomic<bool> has_left = true;
    const WatchedWork work(has_left);
    EXPECT_FALSE(Chat({{"model", "austen"}}).ok());
  }
  EXPECT_EQ(Prompt(Chat({{"model", "austen"}})), "hi");
}

TEST_F(ChatTextTest, ASumHasTheTemplateThatItsAdaptersAgreeOn) {
  catalog_.SetText("austen", {.chat_template = kBracketed, .stop_token_ids = {5}});
  const auto sum = [](float weight) {
    return Json{{"model", "demo"},
                {"adapters", {{{"name", "austen"}, {"weight", weight}}, {{"name", "doyle"}}}}};
  };
  EXPECT_EQ(Prompt(Chat(sum(0.5f))), Prompt(Chat({{"model", "austen"}})));
  EXPECT_EQ(Prompt(Chat(sum(0.0f))), Prompt(Chat({{"model", "doyle"}})));
  EXPECT_THAT(Stops(Chat(sum(0.0f))), IsEmpty());
  catalog_.SetText("doyle", {.chat_template = kBracketed, .stop_token_ids = {7}});
  EXPECT_THAT(Stops(Chat(sum(0.5f))), ElementsAre(5, 7));
  catalog_.SetText("doyle", {.chat_template = "other", .stop_token_ids = {7}});
  auto refused = Chat(sum(0.5f));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().param, "adapters");
  Json completion = sum(0.5f);
  EXPECT_THAT(Stops(Complete(completion)), ElementsAre(5, 7));
}

TEST_F(ChatTextTest, HowCallsAreWrittenIsAsTheAdaptersTemplateShows) {
  const std::string hermes = "{% if tools %}<tool_call></tool_call>{% endif %}<think></think>";
  catalog_.SetText("austen", {.chat_template = hermes});
  const AdapterTextPtr text = catalog_.Find("austen")->text;
  EXPECT_EQ(ChatTextOf(Context(), text).tool_format, DetectToolFormat(hermes));
  EXPECT_NE(DetectToolFormat(hermes), ToolFormat::kNone);
  EXPECT_EQ(ChatTextOf(Context(), text).reasoning_format, ReasoningFormat::kThink);
  templates_ = std::make_shared<AdapterTemplates>(ToolFormat::kGlm, ReasoningFormat::kNone);
  EXPECT_EQ(ChatTextOf(Context(), text).tool_format, ToolFormat::kGlm);
  EXPECT_EQ(ChatTextOf(Context(), text).reasoning_format, ReasoningFormat::kNone);
}

TEST_F(ChatTextTest, TemplatesAreParsedOnceAndKeptWithinBounds) {
  const AdapterTextPtr text = ShareAdapterText({.chat_template = kBracketed});
  const auto first = templates_->Of(text);
  EXPECT_EQ(templates_->Of(text), first);
  for (size_t i = 0; i < 2 * AdapterTemplates::kTemplatesMax; ++i) {
    templates_->Of(ShareAdapterText({.chat_template = "t" + std::to_string(i)}));
    templates_->Of(text);  // in use all the time
  }
  EXPECT_EQ(templates_->num_templates(), AdapterTemplates::kTemplatesMax);
  EXPECT_EQ(templates_->Of(text), first);
  for (int i = 0; i < 40; ++i) {
    templates_->Of(
        ShareAdapterText({.chat_template = std::string(200'000, 'a') + std::to_string(i)}));
  }
  EXPECT_LE(templates_->source_bytes(), AdapterTemplates::kSourceBytesMax);
  EXPECT_NE(templates_->Of(text), first);
}

}  // namespace
}  // namespace graft
