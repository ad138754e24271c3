// Whole templates: the demo's against its golden, and published ones against hashes of what Hugging
// Face renders. Also the ways to load a template.
#include "text/chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/sha256.h"
#include "text/chat/chat_template_source.h"
#include "text/text_test_util.h"

namespace graft {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;

OrderedJson ReadJson(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  CHECK(text.ok()) << text.status().ToString();
  return OrderedJson::parse(*text);
}

std::string ShortHash(const std::string& text) {
  Sha256 hash;
  hash.Update(text);
  return hash.HexDigest().substr(0, 16);
}

OrderedJson Chat(const std::string& content) {
  OrderedJson context;
  context["messages"] = {{{"role", "user"}, {"content", content}}};
  context["add_generation_prompt"] = true;
  context["bos_token"] = "<s>";
  context["eos_token"] = "</s>";
  return context;
}

class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }

  const std::string folder_ = ::testing::TempDir() + "/graft_chat_template_" +
                              ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST(ChatTemplateTest, RendersTheDemoAsItsGolden) {
  const OrderedJson golden = ReadJson(SourceDir() + "/demo/golden_chat.json");
  const auto chat_template = ChatTemplate::Load(SourceDir() + "/demo/base");
  ASSERT_TRUE(chat_template.ok()) << chat_template.status().ToString();
  ASSERT_TRUE(chat_template->has_value());
  OrderedJson context;
  context["messages"] = golden["messages"];
  context["add_generation_prompt"] = true;
  context["bos_token"] = "<|begin_of_text|>";
  context["eos_token"] = "<|end_of_text|>";
  const Result<std::string> text = (*chat_template)->Render(context);
  ASSERT_TRUE(text.ok()) << text.status().ToString();
  EXPECT_EQ(*text, golden["text"].get<std::string>());
}

// The template in a conformance file, which may be a tokenizer_config.json.
std::string TemplateSource(const std::string& path) {
  if (fs::path(path).extension() == ".json") {
    return ReadJson(path)["chat_template"].get<std::string>();
  }
  const Result<std::string> text = ReadFile(path);
  CHECK(text.ok()) << text.status().ToString();
  return *text;
}

// Every published one puts strings out, of all roles.
TEST(ChatTemplateTest, RealTemplatesKeepStrings) {
  const std::string conformance = SourceDir() + "/../shared/conformance";
  if (!fs::exists(conformance)) GTEST_SKIP() << "no shared/conformance beside the repository";
  const OrderedJson file = ReadJson(SourceDir() + "/tests/data/chat_template_hashes.json");
  OrderedJson messages = OrderedJson::array();
  for (const char* role : {"system", "user", "assistant", "tool", "critic"}) {
    messages.push_back({{"role", role}, {"content", "x"}});
  }
  for (const auto& [name, hashes] : file["hashes"].items()) {
    const auto chat_template = ChatTemplate::Parse(TemplateSource(conformance + "/" + name));
    ASSERT_TRUE(chat_template.ok()) << chat_template.status().ToString();
    EXPECT_EQ(chat_template->FitContents(messages, false), messages) << name;
  }
}

TEST(ChatTemplateTest, SomeTemplatesTakeSeveralSystemMessages) {
  const auto takes = [](const std::string& source, const std::string& tool_source, bool tools) {
    const auto chat_template = ChatTemplate::Parse(source, tool_source);
    EXPECT_TRUE(chat_template.ok());
    return chat_template.ok() && chat_template->TakesSeveralSystems(tools);
  };
  const std::string all = "{% for m in messages %}{{ m.content }}{% endfor %}";
  const std::string one =
      "{% for m in messages %}{% if loop.first or m.role != 'system' %}{{ m.content }}{% endif %}"
      "{% endfor %}";
  const std::string one_beside_tools = "{% if tools %}" + one + "{% else %}" + all + "{% endif %}";
  for (const bool tools : {false, true}) {
    EXPECT_TRUE(takes(all, "", tools));
    EXPECT_FALSE(takes(one, "", tools));
    EXPECT_FALSE(takes(one_beside_tools, "", tools));
    EXPECT_EQ(takes(one, all, tools), tools);
    EXPECT_EQ(takes(all, one, tools), !tools);
  }
  const std::string conformance = SourceDir() + "/../shared/conformance/chat_templates/";
  if (!fs::exists(conformance)) GTEST_SKIP() << "no shared/conformance beside the repository";
  const auto real = [&](const std::string& name) {
    return takes(TemplateSource(conformance + name + ".jinja"), "", false);
  };
  EXPECT_TRUE(real("granite-3.0-instruct"));
  EXPECT_TRUE(real("Qwen-Qwen2.5-7B-Instruct"));
  EXPECT_FALSE(real("llama-3-instruct"));
  EXPECT_FALSE(real("gemma-it"));
}

TEST(ChatTemplateTest, ContentsFitEachRoleByItself) {
  const auto fit = [](const char* source, const char* tool_source, bool with_tools) {
    const auto chat_template = ChatTemplate::Parse(source, tool_source);
    EXPECT_TRUE(chat_template.ok());
    OrderedJson messages = OrderedJson::array();
    for (const char* role : {"system", "user", "assistant"}) {
      messages.push_back({{"role", role}, {"content", "x"}});
    }
    messages.push_back({{"role", "assistant"}, {"content", nullptr}});
    std::string forms;
    for (const OrderedJson& message : chat_template->FitContents(messages, with_tools)) {
      const OrderedJson& content = message["content"];
      forms += content.is_string() ? 's' : content.is_array() ? 'p' : '-';
    }
    return forms;
  };
  const char* const strings = "{% for m in messages %}{{ m.content }}{% endfor %}";
  const char* const parts =
      "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}";
  const char* const system_alone =
      "{% for m in messages %}{% if m.role == 'system' %}{{ m.content[0].text }}{% else %}"
      "{{ m.content }}{% endif %}{% endfor %}";
  EXPECT_EQ(fit(strings, "", false), "sss-");
  EXPECT_EQ(fit(parts, "", true), "ppp-");
  EXPECT_EQ(fit(system_alone, "", false), "pss-");
  EXPECT_EQ(fit(strings, parts, false), "sss-");
  EXPECT_EQ(fit(strings, parts, true), "ppp-");
  EXPECT_EQ(fit("{{ messages | length }}", "", false), "sss-") << "no form shows a text";
  EXPECT_EQ(fit("{{ messages | tojson }}", "", false), "sss-");
}

// A context's names are found without looking at all of them.
TEST(ChatTemplateTest, ManyNamesInTheContext) {
  OrderedJson context = Chat("hi");
  for (int i = 0; i < 4000; ++i) context["name" + std::to_string(i)] = i;
  const auto chat_template = ChatTemplate::Parse(
      "{% set name7 = 'own' %}{{ name7 }} {{ name3999 }} {{ nobody is defined }}"
      "{% for m in messages %}{% set name8 = 1 %}{% endfor %} {{ name8 }}");
  ASSERT_TRUE(chat_template.ok()) << chat_template.status().ToString();
  EXPECT_EQ(*chat_template->Render(context), "own 3999 False 8");
}

TEST(ChatTemplateTest, RendersRealTemplatesAsHuggingFaceDoes) {
  const std::string conformance = SourceDir() + "/../shared/conformance";
  if (!fs::exists(conformance)) GTEST_SKIP() << "no shared/conformance beside the repository";
  const OrderedJson file = ReadJson(SourceDir() + "/tests/data/chat_template_hashes.json");
  int num_refused = 0;
  for (const auto& [name, hashes] : file["hashes"].items()) {
    SCOPED_TRACE(name);
    const auto chat_template = ChatTemplate::Parse(TemplateSource(conformance + "/" + name));
    ASSERT_TRUE(chat_template.ok()) << chat_template.status().ToString();
    size_t i = 0;
    for (const OrderedJson& messages : file["messages"]) {
      for (const OrderedJson& variant : file["variants"]) {
        OrderedJson context = variant;
        context["messages"] = messages;
        context["bos_token"] = "<s>";
        context["eos_token"] = "</s>";
        const std::string expected = hashes.at(i++);
        const Result<std::string> text = chat_template->Render(context);
        if (expected.empty()) {
          ++num_refused;
          // kResourceExhausted: Hermes' macro calls itself without end where a parameter is an
          // array.
          EXPECT_THAT(text.status().code(),
                      AnyOf(StatusCode::kInvalidArgument, StatusCode::kResourceExhausted))
              << context.dump();
        } else {
          ASSERT_TRUE(text.ok()) << text.status().ToString() << "\n" << context.dump();
          EXPECT_EQ(ShortHash(*text), expected) << context.dump() << "\n" << *text;
        }
      }
    }
    EXPECT_EQ(i, hashes.size());
  }
  EXPECT_GT(num_refused, 0);
  // Every template in the folder must have expectations.
  for (const auto& entry : fs::directory_iterator(conformance + "/chat_templates")) {
    EXPECT_TRUE(file["hashes"].contains("chat_templates/" + entry.path().filename().string()))
        << entry.path();
  }
}

TEST_F(FolderTest, TakesTheJinjaFileFirst) {
  Write("chat_template.jinja", "file {{ messages[0].content }}");
  Write("tokenizer_config.json", R"({"chat_template": "config"})");
  const auto chat_template = ChatTemplate::Load(folder_);
  ASSERT_TRUE(chat_template.ok() && chat_template->has_value());
  EXPECT_EQ(*(*chat_template)->Render(Chat("x")), "file x");
}

TEST_F(FolderTest, TakesTheConfigsStringOrDefault) {
  Write("tokenizer_config.json", R"({"chat_template": "config"})");
  EXPECT_EQ(*(*ChatTemplate::Load(folder_))->Render(Chat("x")), "config");
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "a"},
                                                       {"name": "default", "template": "b"}]})");
  EXPECT_EQ(*(*ChatTemplate::Load(folder_))->Render(Chat("x")), "b");
}

// Models that see have their template beside their processor, and walk over the parts of a message.
TEST_F(FolderTest, TakesTheProcessorsLast) {
  Write("chat_template.json", R"({"chat_template": "processor"})");
  EXPECT_EQ(*(*ChatTemplate::Load(folder_))->Render(Chat("x")), "processor");
  Write("tokenizer_config.json", "{}");
  EXPECT_EQ(*(*ChatTemplate::Load(folder_))->Render(Chat("x")), "processor");
  Write("tokenizer_config.json", R"({"chat_template": "config"})");
  EXPECT_EQ(*(*ChatTemplate::Load(folder_))->Render(Chat("x")), "config");
}

TEST(ChatTemplateTest, ModelsThatSeeAreAskedByText) {
  const auto rendered = [](const char* source) {
    const auto chat_template = ChatTemplate::Parse(source);
    CHECK(chat_template.ok()) << chat_template.status().ToString();
    OrderedJson context;
    context["messages"] =
        chat_template->FitContents(OrderedJson::parse(R"([{"role": "user", "content": "Hi"},
                               {"role": "assistant", "content": "Ho"},
                               {"role": "user", "content": "He"}])"),
                                   false);
    context["add_generation_prompt"] = true;
    const Result<std::string> text = chat_template->Render(context);
    CHECK(text.ok()) << text.status().ToString();
    return *text;
  };
  // llava-hf/llava-1.5-7b-hf
  EXPECT_EQ(
      rendered(R"({% for message in messages %}{% if message['role'] != 'system' %})"
               R"({{ message['role'].upper() + ': '}}{% endif %}{# Render all images first #})"
               R"({% for content in message['content'] | selectattr('type', 'equalto', 'image') %})"
               R"({{ '<image>\n' }}{% endfor %}{# Render all text next #})"
               R"({% if message['role'] != 'assistant' %}{% for content in message['content'] )"
               R"(| selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' '}}{% endfor %})"
               R"({% else %}{% for content in message['content'] | selectattr('type', 'equalto', )"
               R"('text') %}{% generation %}{{ content['text'] + ' '}}{% endgeneration %})"
               R"({% endfor %}{% endif %}{% endfor %}{% if add_generation_prompt %})"
               R"({{ 'ASSISTANT:' }}{% endif %})"),
      "USER: Hi ASSISTANT: Ho USER: He ASSISTANT:");
  // HuggingFaceTB/SmolVLM-Instruct
  EXPECT_EQ(
      rendered("<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}"
               "{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}"
               "{% endif %}{% for line in message['content'] %}{% if line['type'] == 'text' %}"
               "{{line['text']}}{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}"
               "{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}"
               "{{ 'Assistant:' }}{% endif %}"),
      "<|im_start|>User: Hi<end_of_utterance>\nAssistant: Ho<end_of_utterance>\n"
      "User: He<end_of_utterance>\nAssistant:");
  // Qwen/Qwen2-VL-7B-Instruct
  EXPECT_EQ(
      rendered("{% set image_count = namespace(value=0) %}{% for message in messages %}"
               "{% if loop.first and message['role'] != 'system' %}<|im_start|>system\nYou are "
               "a helpful assistant.<|im_end|>\n{% endif %}<|im_start|>{{ message['role'] }}\n"
               "{% if message['content'] is string %}{{ message['content'] }}<|im_end|>\n"
               "{% else %}{% for content in message['content'] %}{% if content['type'] == "
               "'image' or 'image' in content or 'image_url' in content %}"
               "{% set image_count.value = image_count.value + 1 %}{% if add_vision_id %}"
               "Picture {{ image_count.value }}: {% endif %}<|vision_start|><|image_pad|>"
               "<|vision_end|>{% elif 'text' in content %}{{ content['text'] }}{% endif %}"
               "{% endfor %}<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}"
               "<|im_start|>assistant\n{% endif %}"),
      "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nHi"
      "<|im_end|>\n<|im_start|>assistant\nHo<|im_end|>\n<|im_start|>user\nHe<|im_end|>\n"
      "<|im_start|>assistant\n");
}

TEST_F(FolderTest, ConversationsWithToolsHaveATemplateOfTheirOwn) {
  Write("tokenizer_config.json", R"({"chat_template": [
      {"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]})");
  OrderedJson with_tools = Chat("x");
  with_tools["tools"] = OrderedJson::array({{{"type", "function"}}});
  OrderedJson with_null = Chat("x");
  with_null["tools"] = nullptr;
  auto chat_template = ChatTemplate::Load(folder_);
  ASSERT_TRUE(chat_template.ok() && chat_template->has_value());
  EXPECT_EQ(*(*chat_template)->Render(with_tools), "tools");
  EXPECT_EQ(*(*chat_template)->Render(with_null), "plain");
  EXPECT_EQ((*chat_template)->tool_source(), "tools");
  Write("chat_template.jinja", "file");
  EXPECT_EQ((*ChatTemplate::Load(folder_))->tool_source(), "file");
  std::filesystem::create_directories(folder_ + "/additional_chat_templates");
  Write("additional_chat_templates/tool_use.jinja", "tool file");
  chat_template = ChatTemplate::Load(folder_);
  EXPECT_EQ(*(*chat_template)->Render(with_tools), "tool file");
  EXPECT_EQ(*(*chat_template)->Render(Chat("x")), "file");
}

TEST_F(FolderTest, HasNoneWhereNothingIsSaid) {
  EXPECT_FALSE(ChatTemplate::Load(folder_)->has_value());
  for (const char* config : {"{}", R"({"chat_template": null})", "[]"}) {
    Write("tokenizer_config.json", config);
    EXPECT_FALSE(ChatTemplate::Load(folder_)->has_value()) << config;
  }
}

TEST_F(FolderTest, RefusesWhatItCannotReadByItsPath) {
  for (const char* config : {R"({"chat_template": 5})", R"({"chat_template": [{"name": "rag"}]})",
                             R"({"chat_template": "{% if %}"})", "{"}) {
    Write("tokenizer_config.json", config);
    const Status status = ChatTemplate::Load(folder_).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << config;
    EXPECT_THAT(status.message(), HasSubstr("tokenizer_config.json")) << config;
  }
  Write("chat_template.jinja", "{% include 'x' %}");
  EXPECT_EQ(ChatTemplate::Load(folder_).status().code(), StatusCode::kUnimplemented);
  EXPECT_EQ(ChatTemplate::Load(folder_).status().message(),
            "chat_template.jinja: chat template: line 1: the tag 'include' is not supported");
  Write("chat_template.jinja", std::string(kChatTemplateBytesMax + 1, ' '));
  EXPECT_EQ(ChatTemplate::Load(folder_).status().code(), StatusCode::kInvalidArgument);
}

TEST(ChatTemplateTest, RefusesWhatIsNoContext) {
  const auto chat_template = ChatTemplate::Parse("{{ messages }}");
  EXPECT_EQ(chat_template->Render(OrderedJson::array()).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_THAT(chat_template->Render(Chat("\xff")).status().message(), HasSubstr("UTF-8"));
  OrderedJson deep = 1;
  for (int i = 0; i < 1000; ++i) deep = OrderedJson::array({deep});
  EXPECT_EQ(chat_template->Render({{"messages", deep}}).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(ChatTemplateTest, KeepsTheOrderOfKeysAndEveryNumber) {
  const auto chat_template = ChatTemplate::Parse("{{ x | tojson }}");
  const OrderedJson context = OrderedJson::parse(
      R"({"x": {"z": 1, "a": [1.0, -3, 1e100, 9223372036854775807], "m": {"b": null}}})");
  EXPECT_EQ(*chat_template->Render(context),
            R"({"z": 1, "a": [1.0, -3, 1e+100, 9223372036854775807], "m": {"b": null}})");
}

TEST(ChatTemplateTest, ManyThreadsRenderOneTemplate) {
  const auto chat_template = ChatTemplate::Parse(
      "{% macro twice(x) %}{{ x }}{{ x }}{% endmacro %}"
      "{% for m in messages %}{{ twice(m.content) | upper }}{% endfor %}");
  std::vector<std::thread> threads;
  std::vector<int> num_right(4);
  for (size_t i = 0; i < num_right.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int turn = 0; turn < 200; ++turn) {
        const std::string content = "t" + std::to_string(i) + "-" + std::to_string(turn);
        const Result<std::string> text = chat_template->Render(Chat(content));
        const std::string upper = "T" + content.substr(1);
        num_right[i] += text.ok() && *text == upper + upper ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(num_right, ::testing::Each(200));
}

TEST(ChatTemplateTest, TheClockCanBeSet) {
  setenv("TZ", "UTC", 1);
  tzset();
  const auto chat_template = ChatTemplate::Parse("{{ strftime_now('%Y-%m-%d %H:%M') }}");
  RenderOptions options;
  options.now = 0;
  EXPECT_EQ(*chat_template->Render(Chat(""), options), "1970-01-01 00:00");
  EXPECT_GT(*chat_template->Render(Chat("")), "2024");
}

TEST(ChatTemplateTest, AMessageIsNeverATemplate) {
  const auto chat_template = ChatTemplate::Parse("{{ messages[0].content }}");
  const std::string content = "{{ 1 + 1 }}{% raw %}{# x #}";
  EXPECT_EQ(*chat_template->Render(Chat(content)), content);
}

}  // namespace
}  // namespace graft
