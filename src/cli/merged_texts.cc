#include "cli/merged_texts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "text/chat/chat_template_source.h"

namespace graft {
namespace {

constexpr char kTemplate[] = "chat_template.jinja";
constexpr char kToolTemplate[] = "additional_chat_templates/tool_use.jinja";
constexpr char kTokenizerConfig[] = "tokenizer_config.json";
constexpr char kGenerationConfig[] = "generation_config.json";
constexpr char kStops[] = "eos_token_id";

// An empty object where there is no file.
Result<OrderedJson> ReadObject(const std::string& path) {
  if (!FileExists(path)) return OrderedJson(OrderedJson::object());
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  Result<OrderedJson> json = ParseOrderedJson(text);
  if (!json.ok()) return json.status().WithContext(path);
  if (!json->is_object()) return InvalidArgumentError(path + " must hold an object");
  return json;
}

std::string Written(const OrderedJson& json) { return json.dump(2) + "\n"; }

// The statement of a template that makes the adapter's tokens known to it; "" for none. In the
// tokenizer's files they would also change what a text is tokenized to.
std::string SetTokens(const AdapterText& text) {
  std::string statement;
  const auto add = [&](const char* name, const std::string& token) {
    if (token.empty()) return;
    statement += std::string("{% set ") + name + " = " + OrderedJson(token).dump() + " %}\n";
  };
  add("bos_token", text.bos_token);
  add("eos_token", text.eos_token);
  return statement;
}

// The templates that hold for the adapter, with its tokens; none where they are as the base has
// them.
Result<ChatTemplateSource> TemplatesOf(const std::string& model_dir, const AdapterText& text) {
  ChatTemplateSource source;
  const std::string tokens = SetTokens(text);
  if (text.brings_template()) {
    source = {.all = text.chat_template, .with_tools = text.tool_template};
  } else if (!tokens.empty()) {
    ASSIGN_OR_RETURN(source, FindChatTemplateIn(model_dir));
  }
  if (!source.error.empty() || !source.all.has_value()) return ChatTemplateSource();
  source.all = tokens + *source.all;
  if (!source.with_tools.empty()) source.with_tools = tokens + source.with_tools;
  return source;
}

// generation_config.json: its end tokens hold in place of config.json's.
Result<std::string> WithStops(const std::string& path, const ModelConfig& config,
                              const AdapterText& text) {
  std::vector<int32_t> stops = config.eos_token_ids;
  stops.insert(stops.end(), text.stop_token_ids.begin(), text.stop_token_ids.end());
  if (stops.size() > kEosTokensMax) {
    return InvalidArgumentError("the base and the adapter have " + std::to_string(stops.size()) +
                                " tokens that end an answer, a model has at most " +
                                std::to_string(kEosTokensMax));
  }
  ASSIGN_OR_RETURN(OrderedJson json, ReadObject(path));
  json[kStops] = stops;
  return Written(json);
}

}  // namespace

Result<MergedTexts> MergeTexts(const std::string& model_dir, const ModelConfig& config,
                               const AdapterText& text) {
  MergedTexts texts;
  ASSIGN_OR_RETURN(const ChatTemplateSource templates, TemplatesOf(model_dir, text));
  if (templates.all.has_value()) {
    ASSIGN_OR_RETURN(OrderedJson json, ReadObject(model_dir + "/" + kTokenizerConfig));
    if (json.erase("chat_template") > 0) texts[kTokenizerConfig] = Written(json);
    texts[kTemplate] = templates.all;
    texts[kToolTemplate] =
        templates.with_tools.empty() ? std::nullopt : std::optional(templates.with_tools);
  }
  if (!text.stop_token_ids.empty()) {
    ASSIGN_OR_RETURN(texts[kGenerationConfig],
                     WithStops(model_dir + "/" + kGenerationConfig, config, text));
  }
  return texts;
}

std::string TellTexts(const AdapterText& text, const MergedTexts& written) {
  std::string told;
  const auto add = [&told](const std::string& what) { told += (told.empty() ? "" : ", ") + what; };
  if (text.brings_template()) add("its chat template");
  if (written.contains(kTemplate)) {  // the tokens are told to templates alone
    if (!text.bos_token.empty()) add("its bos_token " + text.bos_token);
    if (!text.eos_token.empty()) add("its eos_token " + text.eos_token);
  }
  if (!text.stop_token_ids.empty()) {
    add("tokens " + OrderedJson(text.stop_token_ids).dump() + " end its answers");
  }
  return told;
}

}  // namespace graft
