#include "text/chat/chat_template.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/clock.h"
#include "base/strings.h"
#include "base/unwanted_work.h"
#include "text/chat/chat_template_source.h"
#include "text/chat/content_form.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/template_parser.h"
#include "text/utf8.h"

namespace graft {
namespace {

using jinja::Heap;
using jinja::Value;

// A word of ASCII letters, digits, hyphens and underscores spells no special token and no part of
// one that a template does not mean to spell.
bool IsPlainWord(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return IsAsciiAlnum(c) || c == '_' || c == '-'; });
}

// Turns a context into values. Strings stay where they are in the JSON, which outlives the
// rendering.
class ContextReader {
 public:
  // `marks`: all strings become untrusted, but for plain words as keys and as "role", which
  // templates make tokens of.
  ContextReader(Heap* heap, bool marks) : heap_(*heap), marks_(marks) {}

  Result<Value> Read(const OrderedJson& json, bool trusted, int depth = 0) {
    if (depth > jinja::kValueDepthMax) {
      return InvalidArgumentError("messages nested deeper than " +
                                  std::to_string(jinja::kValueDepthMax) + " levels");
    }
    switch (json.type()) {
      case OrderedJson::value_t::null:
        return Value::None();
      case OrderedJson::value_t::boolean:
        return Value::Bool(json.get<bool>());
      case OrderedJson::value_t::number_integer:
        return Value::Int(json.get<int64_t>());
      case OrderedJson::value_t::number_unsigned:
        if (json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
          return Value::Float(json.get<double>());
        }
        return Value::Int(json.get<int64_t>());
      case OrderedJson::value_t::number_float:
        return Value::Float(json.get<double>());
      case OrderedJson::value_t::string:
        return ReadString(json.get_ref<const std::string&>(), trusted);
      case OrderedJson::value_t::array:
        return ReadArray(json, trusted, depth);
      case OrderedJson::value_t::object:
        return ReadObject(json, trusted, depth);
      default:
        return InvalidArgumentError("messages hold a value that is no JSON");
    }
  }

 private:
  Result<Value> ReadString(const std::string& text, bool trusted) {
    if (!IsValidUtf8(text)) return InvalidArgumentError("a message is not UTF-8");
    return Value::String(text,
                         marks_ && !trusted ? heap_.origins().Mark(text) : jinja::kOfTemplate);
  }

  // A string that is trusted as a plain word, too, which also is UTF-8.
  Result<Value> ReadWord(const std::string& text, bool trusted) {
    if (IsPlainWord(text)) return Value::String(text, jinja::kOfTemplate);
    return ReadString(text, trusted);
  }

  Result<Value> ReadArray(const OrderedJson& json, bool trusted, int depth) {
    std::vector<Value> items;
    items.reserve(json.size());
    for (const OrderedJson& item : json) {
      ASSIGN_OR_RETURN(const Value value, Read(item, trusted, depth + 1));
      items.push_back(value);
    }
    return heap_.List(std::move(items));
  }

  Result<Value> ReadObject(const OrderedJson& json, bool trusted, int depth) {
    std::vector<std::pair<Value, Value>> entries;
    entries.reserve(json.size());
    for (auto it = json.begin(); it != json.end(); ++it) {
      ASSIGN_OR_RETURN(const Value key, ReadWord(it.key(), trusted));
      const bool is_role = it.value().is_string() && it.key() == "role";
      ASSIGN_OR_RETURN(const Value value,
                       is_role ? ReadWord(it.value().get_ref<const std::string&>(), trusted)
                               : Read(it.value(), trusted, depth + 1));
      entries.emplace_back(key, value);
    }
    return heap_.NewDict(std::move(entries));
  }

  Heap& heap_;
  const bool marks_;
};

Result<jinja::Block> ParseSource(std::string_view source) {
  if (source.size() > kChatTemplateBytesMax) {
    return ResourceExhaustedError("a chat template of " + std::to_string(source.size()) +
                                  " bytes, the limit is " + std::to_string(kChatTemplateBytesMax));
  }
  Result<jinja::Block> block = jinja::ParseTemplate(source);
  if (!block.ok()) return block.status().WithContext("chat template");
  return block;
}

bool HasTools(const OrderedJson& context) {
  const auto tools = context.find("tools");
  return tools != context.end() && !tools->is_null();
}

// One template, and the messages that it wants.
struct Compiled {
  jinja::Block block;
  ContentForms forms;
  bool takes_several_systems = false;
};

Result<std::string> RenderBlock(const jinja::Block& block, const OrderedJson& context,
                                const RenderOptions& options, TextRanges* untrusted) {
  jinja::Limits limits;
  limits.work = options.work_max;
  Heap heap(limits);
  std::vector<std::pair<std::string_view, Value>> variables;
  ContextReader reader(&heap, untrusted != nullptr);
  for (auto it = context.begin(); it != context.end(); ++it) {
    const bool trusted = it.key() == "bos_token" || it.key() == "eos_token";
    ASSIGN_OR_RETURN(const Value value, reader.Read(it.value(), trusted));
    variables.emplace_back(it.key(), value);
  }
  jinja::Interpreter interpreter(&heap, options.now.value_or(UnixTimeSeconds()));
  Result<jinja::TextBuilder> text = interpreter.Run(block, std::move(variables));
  if (!text.ok()) return text.status().WithContext("chat template");
  if (untrusted != nullptr) *untrusted = text->TakeUntrusted();
  return text->TakeText();
}

Result<Compiled> Compile(std::string_view source, bool with_tools) {
  Compiled compiled;
  ASSIGN_OR_RETURN(compiled.block, ParseSource(source));
  RenderOptions options;
  options.now = 0;
  options.work_max = 200'000;  // of a conversation of a few words
  // What is found holds for all conversations: the search runs to its end, even if the client that
  // came first has left.
  const std::atomic<bool> is_unwanted = false;
  const WatchedWork work(is_unwanted);
  const auto render = [&](const OrderedJson& context) {
    return RenderBlock(compiled.block, context, options, nullptr);
  };
  compiled.forms = FindContentForms(with_tools, render);
  const auto takes_several = [&](bool beside_tools) {
    return TakesSeveralSystems(compiled.forms, beside_tools, render);
  };
  compiled.takes_several_systems = takes_several(true) && (with_tools || takes_several(false));
  return compiled;
}

}  // namespace

struct ChatTemplate::Tree {
  Compiled all;
  std::optional<Compiled> with_tools;
  std::string tool_source;

  const Compiled& Of(bool has_tools) const {
    return has_tools && with_tools.has_value() ? *with_tools : all;
  }
};

ChatTemplate::ChatTemplate(std::unique_ptr<Tree> tree) : tree_(std::move(tree)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

const std::string& ChatTemplate::tool_source() const { return tree_->tool_source; }

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source, std::string_view tool_source) {
  auto tree = std::make_unique<Tree>();
  ASSIGN_OR_RETURN(tree->all, Compile(source, /*with_tools=*/false));
  if (!tool_source.empty()) {
    ASSIGN_OR_RETURN(tree->with_tools, Compile(tool_source, /*with_tools=*/true));
  }
  tree->tool_source = tool_source.empty() ? source : tool_source;
  return ChatTemplate(std::move(tree));
}

Result<ChatTemplate> ChatTemplate::Parse(const AdapterText& text) {
  if (!text.template_error.empty()) return InvalidArgumentError(text.template_error);
  return Parse(text.chat_template, text.tool_template);
}

Result<std::optional<ChatTemplate>> ChatTemplate::Load(const std::string& model_dir) {
  ASSIGN_OR_RETURN(const ChatTemplateSource source, FindChatTemplateIn(model_dir));
  if (!source.error.empty()) return InvalidArgumentError(source.file + ": " + source.error);
  if (!source.all.has_value()) return std::optional<ChatTemplate>();
  Result<ChatTemplate> parsed = Parse(*source.all, source.with_tools);
  // Clients may hear this: the file's name, not its folder.
  if (!parsed.ok()) return parsed.status().WithContext(source.file);
  return std::optional<ChatTemplate>(std::move(parsed).value());
}

OrderedJson ChatTemplate::FitContents(OrderedJson messages, bool with_tools) const {
  const ContentForms& forms = tree_->Of(with_tools).forms;
  for (OrderedJson& message : messages) FitContent(forms, &message);
  return messages;
}

bool ChatTemplate::TakesSeveralSystems(bool with_tools) const {
  return tree_->Of(with_tools).takes_several_systems;
}

Result<std::string> ChatTemplate::Render(const OrderedJson& context, const RenderOptions& options,
                                         TextRanges* untrusted) const {
  if (!context.is_object()) return InvalidArgumentError("a chat template renders a JSON object");
  return RenderBlock(tree_->Of(HasTools(context)).block, context, options, untrusted);
}

}  // namespace graft
