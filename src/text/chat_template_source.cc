#include "text/chat_template_source.h"

#include <utility>

#include "base/file.h"
#include "base/json.h"

namespace graft {
namespace {

constexpr char kTemplateFile[] = "chat_template.jinja";
constexpr char kToolTemplateFile[] = "additional_chat_templates/tool_use.jinja";
constexpr char kTokenizerConfigFile[] = "tokenizer_config.json";

// The named templates of a tokenizer_config.json.
Result<ChatTemplateSource> NamedTemplates(const Json& field) {
  ChatTemplateSource source;
  if (field.is_null()) return source;
  if (field.is_string()) {
    source.all = field.get<std::string>();
    return source;
  }
  if (!field.is_array()) return InvalidArgumentError("chat_template is neither text nor a list");
  for (const Json& entry : field) {
    if (!entry.is_object()) continue;
    const auto name = entry.find("name");
    const auto text = entry.find("template");
    if (name == entry.end() || text == entry.end() || !text->is_string()) continue;
    if (*name == "default") source.all = text->get<std::string>();
    if (*name == "tool_use") source.with_tools = text->get<std::string>();
  }
  if (source.all.has_value()) return source;
  return InvalidArgumentError("chat_template is a list without an entry named \"default\"");
}

}  // namespace

Result<ChatTemplateSource> FindChatTemplate(const ReadBesideAdapter& read) {
  ChatTemplateSource source;
  source.file = kTemplateFile;
  ASSIGN_OR_RETURN(source.all, read(kTemplateFile));
  if (source.all.has_value()) {
    ASSIGN_OR_RETURN(const std::optional<std::string> with_tools, read(kToolTemplateFile));
    source.with_tools = with_tools.value_or("");
    return source;
  }
  ASSIGN_OR_RETURN(const std::optional<std::string> text, read(kTokenizerConfigFile));
  if (!text.has_value()) return source;
  const Result<Json> config = ParseJson(*text);
  if (!config.ok()) return config.status().WithContext(kTokenizerConfigFile);
  const auto field = config->find("chat_template");
  if (!config->is_object() || field == config->end()) return source;
  Result<ChatTemplateSource> named = NamedTemplates(*field);
  if (!named.ok()) return named.status().WithContext(kTokenizerConfigFile);
  named->file = kTokenizerConfigFile;
  return named;
}

Result<ChatTemplateSource> FindChatTemplateIn(const std::string& folder) {
  return FindChatTemplate([&](const std::string& file) -> Result<std::optional<std::string>> {
    const std::string path = folder + "/" + file;
    if (!FileExists(path)) return std::optional<std::string>();
    // The config holds much else.
    const bool is_config = file == kTokenizerConfigFile;
    ASSIGN_OR_RETURN(std::string bytes,
                     is_config ? ReadFile(path) : ReadFile(path, int64_t{kChatTemplateBytesMax}));
    return std::optional<std::string>(std::move(bytes));
  });
}

}  // namespace graft
