#include "text/chat/content_form.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace graft {
namespace {

constexpr std::array<std::string_view, 4> kRoles = {"user", "system", "assistant", "tool"};

// Words that no template writes, without letters that filters change.
constexpr const char* kFirstWord = "51907736";
constexpr const char* kSecondWord = "68220415";

OrderedJson Part(const std::string& text) { return {{"type", "text"}, {"text", text}}; }

// A conversation in which `role` says `content`.
OrderedJson Conversation(std::string_view role, OrderedJson content) {
  const OrderedJson question = {{"role", "user"}, {"content", "Hello."}};
  OrderedJson message = {{"role", std::string(role)}, {"content", std::move(content)}};
  if (role == "user") return OrderedJson::array({message});
  if (role == "system") return OrderedJson::array({message, question});
  if (role == "assistant") return OrderedJson::array({question, message, question});
  message["name"] = "look_up";
  message["tool_call_id"] = "abcdefghi";
  const OrderedJson call = {
      {"id", "abcdefghi"},
      {"type", "function"},
      {"function", {{"name", "look_up"}, {"arguments", OrderedJson::object()}}}};
  const OrderedJson calling = {
      {"role", "assistant"}, {"content", ""}, {"tool_calls", OrderedJson::array({call})}};
  return OrderedJson::array({question, calling, message});
}

OrderedJson Tools() {
  const OrderedJson function = {
      {"name", "look_up"},
      {"description", "Looks up."},
      {"parameters", {{"type", "object"}, {"properties", OrderedJson::object()}}}};
  return OrderedJson::array({OrderedJson{{"type", "function"}, {"function", function}}});
}

// What a probe shows of two words.
struct Shown {
  bool first = false;
  bool second = false;
};

Shown TryMessages(OrderedJson messages, bool with_tools, const RenderFunction& render) {
  OrderedJson context = {
      {"messages", std::move(messages)}, {"tools", nullptr}, {"documents", nullptr},
      {"add_generation_prompt", true},   {"bos_token", ""},  {"eos_token", ""}};
  if (with_tools) context["tools"] = Tools();
  const Result<std::string> text = render(context);
  if (!text.ok()) return {};
  // A list that is put out as a whole shows the words, too.
  for (const char* quote : {"'", "\""}) {
    const std::string key = std::string(quote) + "text" + quote + ": " + quote + kFirstWord;
    if (text->find(key) != std::string::npos) return {};
  }
  return {text->find(kFirstWord) != std::string::npos,
          text->find(kSecondWord) != std::string::npos};
}

// `forms`: of the other roles.
Shown Try(std::string_view role, const OrderedJson& content, const ContentForms& forms,
          bool with_tools, const RenderFunction& render) {
  OrderedJson messages = Conversation(role, content);
  for (OrderedJson& message : messages) {
    if (message["role"] != std::string(role)) FitContent(forms, &message);
  }
  return TryMessages(std::move(messages), with_tools, render);
}

// `otherwise`: where neither form shows the text.
ContentForm FormOf(std::string_view role, const ContentForms& forms, bool with_tools,
                   const RenderFunction& render, ContentForm otherwise) {
  if (Try(role, kFirstWord, forms, with_tools, render).first) return ContentForm::kText;
  const OrderedJson parts = OrderedJson::array({Part(kFirstWord), Part(kSecondWord)});
  const Shown shown = Try(role, parts, forms, with_tools, render);
  if (!shown.first) return otherwise;
  return shown.second ? ContentForm::kParts : ContentForm::kOnePart;
}

}  // namespace

std::string JoinParts(const OrderedJson& parts) {
  std::string text;
  for (const OrderedJson& part : parts) {
    if (&part != &parts.front()) text += '\n';
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

ContentForms FindContentForms(bool with_tools, const RenderFunction& render) {
  ContentForms forms = {};
  for (size_t i = 0; i < kRoles.size(); ++i) {
    const ContentForm otherwise = i == 0 ? ContentForm::kText : forms[0];
    forms[i] = FormOf(kRoles[i], forms, with_tools, render, otherwise);
  }
  return forms;
}

bool TakesSeveralSystems(const ContentForms& forms, bool with_tools, const RenderFunction& render) {
  OrderedJson messages = OrderedJson::array({{{"role", "system"}, {"content", kFirstWord}},
                                             {{"role", "system"}, {"content", kSecondWord}},
                                             {{"role", "user"}, {"content", "Hello."}}});
  for (OrderedJson& message : messages) FitContent(forms, &message);
  const Shown shown = TryMessages(std::move(messages), with_tools, render);
  return shown.first && shown.second;
}

void FitContent(const ContentForms& forms, OrderedJson* message) {
  const auto content = message->find("content");
  if (content == message->end() || (!content->is_string() && !content->is_array())) return;
  const std::string role = message->value("role", "");
  const auto* const known = std::find(kRoles.begin(), kRoles.end(), role);
  const ContentForm form = known == kRoles.end() ? forms[0] : forms[known - kRoles.begin()];
  if (form == ContentForm::kText) {
    if (content->is_array()) *content = JoinParts(*content);
  } else if (content->is_string()) {
    *content = OrderedJson::array({Part(content->get<std::string>())});
  } else if (form == ContentForm::kOnePart) {
    *content = OrderedJson::array({Part(JoinParts(*content))});
  }
}

}  // namespace graft
