#include "openai/generation_plan.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "openai/openai_testing.h"

namespace graft {
namespace {

class GenerationPlanTest : public testing::Test {
 protected:
  ApiContext Context(const GenerationDefaults& defaults = {}) {
    ApiContext context = DemoContext(generator_, catalog_, metrics_, clock_);
    context.chat_template = &template_;
    context.defaults = defaults;
    return context;
  }
  ApiResult<GenerationPlan> Plan(const std::string& body, bool is_chat = false,
                                 const GenerationDefaults& defaults = {}) {
    const ApiContext context = Context(defaults);
    return PlanGeneration(context, limits_, *key_, is_chat, body);
  }

  FakeGenerator generator_;  // its context is 1,024 tokens
  FakeCatalog catalog_;
  Metrics metrics_;
  AtomicClock clock_;
  RequestLimits limits_;
  std::optional<ApiKey> key_{std::in_place, ApiKey::Rights{.tenant = "t", .all_models = true}, 0};
  ChatTemplate template_ = *ChatTemplate::Parse(
      "{% if tools %}tools: {{ tools | tojson }}\n{% endif %}"
      "{% for m in messages %}{{ m.content }}{% endfor %}");
};

TEST_F(GenerationPlanTest, TellsTheEngineWhoGoesFirst) {
  key_.emplace(ApiKey::Rights{.tenant = "t", .tenant_weight = 2.5f, .all_models = true}, 0);
  auto plan = Plan(R"({"model":"demo","prompt":"x","priority":-3})");
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->requests[0].tenant_weight, 2.5f);
  EXPECT_EQ(plan->requests[0].priority, 3);  // the smallest is the first over HTTP
  EXPECT_FALSE(Plan(R"({"model":"demo","prompt":"x","priority":"high"})").ok());
}

TEST_F(GenerationPlanTest, AKeysLimitsHoldBesideTheModels) {
  key_.emplace(ApiKey::Rights{.tenant = "t",
                              .all_models = true,
                              .limits = {.context_tokens_max = 50, .n_max = 4},
                              .tenant_limits = {.context_tokens_max = 40, .n_max = 8}},
               0);
  const auto n = Plan(R"({"model":"demo","prompt":"x","n":5})");
  ASSERT_FALSE(n.ok());
  EXPECT_EQ(n.error().param, "n");
  EXPECT_NE(n.error().message.find("4 choices"), std::string::npos);
  const auto context = Plan(R"({"model":"demo","prompt":[1,1,1],"max_tokens":38})");
  ASSERT_FALSE(context.ok());
  EXPECT_EQ(context.error().code, "context_length_exceeded");
  EXPECT_NE(context.error().message.find("This key's maximum context length is 40"),
            std::string::npos);
  EXPECT_TRUE(Plan(R"({"model":"demo","prompt":[1,1,1],"max_tokens":37})").ok());
  auto chat = Plan(R"({"model":"demo","messages":[{"role":"user","content":"x"}]})", true);
  ASSERT_TRUE(chat.ok());
  EXPECT_LT(chat->requests[0].sampling.tokens_max, 40);
}

TEST_F(GenerationPlanTest, CountsTheWorkOfAllChoices) {
  auto plan = Plan(R"({"model":"demo","prompt":[[1,1,1],[1]],"max_tokens":10,"n":2})");
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->work.num_sequences, 4);
  EXPECT_EQ(plan->work.prompt_tokens, 8);
  EXPECT_EQ(plan->work.tokens, 8 + 40);
  plan = Plan(R"({"model":"demo","prompt":[1,1,1]})");
  EXPECT_EQ(plan->work.tokens, 3) << "without max_tokens nothing is taken in advance";
}

TEST_F(GenerationPlanTest, LogprobsOfOneAnswerAreBounded) {
  const auto huge =
      Plan(R"({"model":"demo","prompt":"x","n":128,"max_tokens":1000,"logprobs":20})");
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.error().http_status, 400);
  EXPECT_EQ(huge.error().param, "logprobs");
  EXPECT_NE(huge.error().message.find(std::to_string(128 * 1000 * 21)), std::string::npos)
      << huge.error().message;
  EXPECT_TRUE(Plan(R"({"model":"demo","prompt":"x","n":128,"max_tokens":100,"logprobs":20})").ok());
  EXPECT_TRUE(Plan(R"({"model":"demo","prompt":"x","n":128,"max_tokens":1000})").ok());
  // A prompt's log-probabilities count once for each choice that echoes it.
  limits_.logprobs_max = 100;
  const std::string echo = R"({"model":"demo","prompt":[)" + std::string("1,1,1,1,1,1,1,1,1,1") +
                           R"(],"max_tokens":0,"echo":true,"logprobs":0,"n":)";
  EXPECT_TRUE(Plan(echo + "10}").ok());
  EXPECT_FALSE(Plan(echo + "11}").ok());
}

TEST_F(GenerationPlanTest, AnAnswerOfNoGivenLengthHasAsManyTokensAsItsLogprobsMay) {
  limits_.logprobs_max = 300;
  auto plan = Plan(R"({"model":"demo","messages":[{"role":"user","content":"x"}],"n":2,
                       "logprobs":true,"top_logprobs":2})",
                   /*is_chat=*/true);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(plan->requests.size(), 2u);
  for (const Request& request : plan->requests) EXPECT_EQ(request.sampling.tokens_max, 50);
}

// The demo's longest token has about 16 bytes. Tokenising a mebibyte of spaces would take a second.
TEST_F(GenerationPlanTest, ATextThatCannotFitIsNotTokenised) {
  const std::string spaces(size_t{1} << 20, ' ');
  const auto refused = Plan(R"({"model":"demo","prompt":")" + spaces + R"("})");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, "context_length_exceeded");
  EXPECT_NE(refused.error().message.find("bytes has at least"), std::string::npos)
      << refused.error().message;
  const auto chat =
      Plan(R"({"model":"demo","messages":[{"role":"user","content":")" + spaces + R"("}]})", true);
  ASSERT_FALSE(chat.ok());
  EXPECT_EQ(chat.error().param, "messages");
  EXPECT_NE(chat.error().message.find("bytes has at least"), std::string::npos);
  EXPECT_TRUE(Plan(R"({"model":"demo","prompt":")" + spaces.substr(0, 900) + R"("})").ok());
}

TEST_F(GenerationPlanTest, ToolsThatAreNotToBeCalledAreShownInTheirOwnOrder) {
  const std::string messages = R"("model":"demo","messages":[{"role":"user","content":"hi"}])";
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"f","arguments":{"b":1,"a":2}}}])";
  auto plan = Plan("{" + messages + "," + tools + R"(,"tool_choice":"none"})", /*is_chat=*/true);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const std::string prompt = DemoTokenizer().Decode(plan->requests[0].prompt_tokens, false);
  EXPECT_NE(prompt.find(R"("arguments": {"b": 1, "a": 2})"), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("hi"), std::string::npos);
  for (const std::string choice :
       {"", R"(,"tool_choice":"auto")", R"(,"tool_choice":"required")"}) {
    const auto refused = Plan("{" + messages + "," + tools + choice + "}", /*is_chat=*/true);
    ASSERT_FALSE(refused.ok()) << choice;
    EXPECT_EQ(refused.error().code, "unsupported") << choice;
  }
  EXPECT_FALSE(Plan("{" + messages + R"(,"tools":[1],"tool_choice":"none"})", true).ok());
  EXPECT_TRUE(Plan("{" + messages + R"(,"tools":[],"tool_choice":"none"})", true).ok());
}

TEST_F(GenerationPlanTest, TheServersDefaultsAreForWhoSaysNothing) {
  GenerationDefaults defaults;
  defaults.sampling.temperature = 0.5f;
  defaults.sampling.top_k = 7;
  defaults.tokens_max = 30;
  auto plan = Plan(R"({"model":"demo","prompt":"x","top_k":3})", false, defaults);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->requests[0].sampling.temperature, 0.5f);
  EXPECT_EQ(plan->requests[0].sampling.top_k, 3);
  EXPECT_EQ(plan->requests[0].sampling.tokens_max, 30);
  auto chat = Plan(R"({"model":"demo","messages":[{"role":"user","content":"x"}],
                       "max_tokens":40})",
                   true, defaults);
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->requests[0].sampling.temperature, 0.5f);
  EXPECT_EQ(chat->requests[0].sampling.tokens_max, 40);
}

TEST(GenerationDefaultsTest, AreReadAsTheModelsFolderHasThem) {
  const std::string dir = testing::TempDir() + "graft_defaults_" + std::to_string(getpid());
  std::filesystem::create_directories(dir);
  const auto load = [&](const std::string& json) {
    std::ofstream(dir + "/generation_config.json") << json;
    return LoadGenerationDefaults(dir);
  };
  const auto some = load(R"({"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": -1,
      "eos_token_id": [1, 2], "max_new_tokens": 77, "repetition_penalty": null})");
  ASSERT_TRUE(some.ok()) << some.status().ToString();
  EXPECT_EQ(some->sampling.temperature, 0.6f);
  EXPECT_EQ(some->sampling.top_p, 0.9f);
  EXPECT_EQ(some->sampling.top_k, 0);
  EXPECT_EQ(some->sampling.repetition_penalty, 1.0f);
  EXPECT_EQ(some->tokens_max, 77);
  const auto odd = load(R"({"temperature": "hot", "top_p": 0, "repetition_penalty": 0, "top_k": 5,
      "max_new_tokens": 0, "min_p": 2})");
  ASSERT_TRUE(odd.ok()) << odd.status().ToString();
  EXPECT_EQ(odd->sampling.temperature, 1.0f);
  EXPECT_EQ(odd->sampling.top_p, 1.0f);
  EXPECT_EQ(odd->sampling.min_p, 0.0f);
  EXPECT_EQ(odd->sampling.repetition_penalty, 1.0f);
  EXPECT_EQ(odd->sampling.top_k, 5);
  EXPECT_FALSE(odd->tokens_max.has_value());
  ASSERT_EQ(odd->ignored.size(), 5u);
  for (const char* name :
       {"temperature", "top_p", "repetition_penalty", "max_new_tokens", "min_p"}) {
    EXPECT_TRUE(std::any_of(odd->ignored.begin(), odd->ignored.end(), [name](const auto& text) {
      return text.find(name) != std::string::npos;
    })) << name;
  }
  EXPECT_TRUE(some->ignored.empty());
  for (const char* bad : {"[]", "{"}) {
    const auto nothing = load(bad);
    ASSERT_TRUE(nothing.ok()) << bad << ": " << nothing.status().ToString();
    EXPECT_EQ(nothing->sampling.temperature, 1.0f);
  }
  const auto none = LoadGenerationDefaults(dir + "/nowhere");
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->sampling.temperature, 1.0f);
  std::filesystem::remove_all(dir);
}

TEST_F(GenerationPlanTest, AdaptersAreAddedToTheBaseModel) {
  const auto body = [](const std::string& model, const std::string& adapters) {
    return R"({"model":")" + model + R"(","prompt":"x","n":2,"adapters":)" + adapters + "}";
  };
  auto plan = Plan(body("demo", R"([{"name":"doyle","weight":0.5},{"name":"austen"}])"));
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->head.model, "demo");
  ASSERT_EQ(plan->requests.size(), 2u);
  for (const Request& request : plan->requests) {
    ASSERT_EQ(request.adapters.size(), 2u);
    EXPECT_EQ(request.adapters[0].hash, catalog_.Find("doyle")->key());
    EXPECT_EQ(request.adapters[0].weight, 0.5f);
    EXPECT_EQ(request.adapters[1].weight, 1.0f);
  }
  // What has no weight is checked, and adds nothing.
  plan = Plan(body("demo", R"([{"name":"doyle","weight":0}])"));
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->requests[0].adapters.empty());
  const auto refused = [&](const std::string& text, const std::string& param, int status) {
    const auto failed = Plan(text);
    ASSERT_FALSE(failed.ok()) << text;
    EXPECT_EQ(failed.error().param, param) << text;
    EXPECT_EQ(failed.error().http_status, status) << text;
  };
  refused(body("austen", R"([{"name":"doyle"}])"), "adapters", 400);
  refused(body("demo", R"([{"name":"demo"}])"), "adapters[0].name", 400);
  refused(body("demo", R"([{"name":"austen"},{"name":"doile"}])"), "adapters[1].name", 404);
  // A key adds what it may use.
  key_.emplace(ApiKey::Rights{.tenant = "t", .models = {"demo", "austen"}}, 0);
  EXPECT_TRUE(Plan(body("demo", R"([{"name":"austen"}])")).ok());
  refused(body("demo", R"([{"name":"austen"},{"name":"doyle","weight":0}])"), "adapters[1].name",
          404);
}

TEST_F(GenerationPlanTest, WhatATenantLearnedIsNobodyElses) {
  const std::string name = std::string(kLearnedPrefix) + "demo:1234";
  ASSERT_TRUE(catalog_.Load({.name = name, .path = "good/learned", .owner = "t"}).ok());
  const ApiContext context = Context();
  const auto find = [&](ApiKey::Rights rights) {
    const ApiKey key(std::move(rights), 0);
    const ApiResult<AdapterInfo> found = FindModel(context, key, name);
    EXPECT_EQ(found.ok(), MayUseModel(context, key, name));
    return found.ok();
  };
  // A key's list of names is of shared models: it neither hides nor grants what a tenant owns.
  EXPECT_TRUE(find({.tenant = "t", .models = {"demo"}}));
  EXPECT_FALSE(find({.tenant = "other", .all_models = true}));
  EXPECT_FALSE(find({.tenant = "other", .models = {name}}));
  EXPECT_TRUE(find({.tenant = "other", .admin = true}));
  const ApiKey other({.tenant = "other", .all_models = true}, 0);
  const auto near = FindModel(context, other, name + "5");
  EXPECT_EQ(near.error().message.find(name + "'"), std::string::npos) << near.error().message;
}

TEST_F(GenerationPlanTest, NearNamesAreThoseThatTheKeyMayUse) {
  const ApiContext context = Context();
  EXPECT_NE(FindModel(context, *key_, "doile").error().message.find("'doyle'"), std::string::npos);
  const ApiKey other({.tenant = "t", .models = {"austen", "gone", "demo"}}, 0);
  EXPECT_EQ(FindModel(context, other, "doile").error().message.find("doyle"), std::string::npos);
  EXPECT_NE(FindModel(context, other, "austn").error().message.find("'austen'"), std::string::npos);
  EXPECT_EQ(FindModel(context, other, "gon").error().message.find("gone"), std::string::npos);
  EXPECT_NE(FindModel(context, other, "demmo").error().message.find("'demo'"), std::string::npos);
}

// A tenant's own adapters are in no list of others, and in no hint to them.
TEST_F(GenerationPlanTest, NearNamesAreNotThoseOfOtherTenants) {
  const ApiContext context = Context();
  const auto owned =
      std::make_shared<const ApiKey::Owned>(ApiKey::Owned{{"doyle", "b"}, {"doyle-large", "b"}});
  ApiKey::Rights many{.tenant = "a"};
  for (int i = 0; i < 300; ++i) many.models.insert("name" + std::to_string(i));
  many.models.insert("doyle");
  for (const ApiKey::Rights& rights :
       {ApiKey::Rights{.tenant = "a", .all_models = true},
        ApiKey::Rights{.tenant = "a", .models = {"doyle", "austen"}}, many,
        ApiKey::Rights{.tenant = "a", .model_patterns = {"d*"}}}) {
    ApiKey other(rights, 0);
    other.SetOwned(owned);
    for (const char* name : {"doyl", "doyle"}) {
      const auto found = FindModel(context, other, name);
      ASSERT_FALSE(found.ok());
      EXPECT_EQ(found.error().message.find("names are"), std::string::npos)
          << found.error().message;
      const auto sum = PlanGeneration(
          context, limits_, ApiKey(other), /*is_chat=*/false,
          std::string(R"({"model":"demo","prompt":"x","adapters":[{"name":")") + name + "\"}]}");
      ASSERT_FALSE(sum.ok());
      EXPECT_EQ(sum.error().message.find("large"), std::string::npos) << sum.error().message;
    }
  }
  ApiKey owner({.tenant = "b", .all_models = true}, 0);
  owner.SetOwned(owned);
  EXPECT_NE(FindModel(context, owner, "doyl").error().message.find("'doyle'"), std::string::npos);
}

TEST_F(GenerationPlanTest, AllTheRoomIsAskedForByMinusOne) {
  auto plan = Plan(R"({"model":"demo","prompt":[1,1,1],"max_tokens":-1})");
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->requests[0].sampling.tokens_max, 1024 - 3);
  EXPECT_EQ(plan->work.tokens, 3) << "nothing is taken in advance";
  plan = Plan(R"({"model":"demo","messages":[{"role":"user","content":"x"}],"max_tokens":-1})",
              true, {.tokens_max = 7});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_GT(plan->requests[0].sampling.tokens_max, 1000);
}

// Efforts that change nothing go to any template, and not to one that knows efforts where there is
// nothing to say.
TEST_F(GenerationPlanTest, NeutralEffortsNeedNoTemplateThatKnowsThem) {
  const auto chat = [](const std::string& effort) {
    return R"({"model":"demo","messages":[{"role":"user","content":"x"}],"reasoning_effort":")" +
           effort + "\"}";
  };
  EXPECT_TRUE(Plan(chat("none"), true).ok());
  EXPECT_TRUE(Plan(chat("auto"), true).ok());
  EXPECT_EQ(Plan(chat("high"), true).error().param, "reasoning_effort");
  template_ = *ChatTemplate::Parse(
      "{% for m in messages %}{{ m.content }}{% endfor %}{{ reasoning_effort | default('-') }}");
  const auto text_of = [&](const std::string& effort) {
    return DemoTokenizer().Decode(Plan(chat(effort), true)->requests[0].prompt_tokens, true);
  };
  EXPECT_EQ(text_of("none"), "xnone");
  EXPECT_EQ(text_of("auto"), "x-");
}

}  // namespace
}  // namespace graft
