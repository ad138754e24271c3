#include "text/chat/chat_template_source.h"

#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "text/utf8.h"

namespace graft {
namespace {

constexpr char kTemplateFile[] = "chat_template.jinja";
constexpr char kToolTemplateFile[] = "additional_chat_templates/tool_use.jinja";
constexpr char kTokenizerConfigFile[] = "tokenizer_config.json";
constexpr char kProcessorFile[] = "chat_template.json";

// The templates of a file's field `chat_template`.
ChatTemplateSource NamedTemplates(const char* file, const Json& field) {
  ChatTemplateSource source;
  source.file = file;
  if (field.is_null()) return source;
  if (field.is_string()) {
    source.all = field.get<std::string>();
    return source;
  }
  if (!field.is_array()) {
    source.error = "chat_template is neither text nor a list";
    return source;
  }
  for (const Json& entry : field) {
    if (!entry.is_object()) continue;
    const auto name = entry.find("name");
    const auto text = entry.find("template");
    if (name == entry.end() || text == entry.end() || !text->is_string()) continue;
    if (*name == "default") source.all = text->get<std::string>();
    if (*name == "tool_use") source.with_tools = text->get<std::string>();
  }
  if (!source.all.has_value()) {
    source.error = "chat_template is a list without an entry named \"default\"";
  }
  return source;
}

Result<ChatTemplateSource> FindSource(const ReadBesideAdapter& read) {
  ChatTemplateSource source;
  source.file = kTemplateFile;
  ASSIGN_OR_RETURN(source.all, read(kTemplateFile));
  if (source.all.has_value()) {
    ASSIGN_OR_RETURN(const std::optional<std::string> with_tools, read(kToolTemplateFile));
    source.with_tools = with_tools.value_or("");
    return source;
  }
  for (const char* const file : {kTokenizerConfigFile, kProcessorFile}) {
    ASSIGN_OR_RETURN(const std::optional<std::string> text, read(file));
    if (!text.has_value()) continue;
    const Result<Json> config = ParseJson(*text);
    if (!config.ok()) return config.status().WithContext(file);
    const auto field = config->find("chat_template");
    if (!config->is_object() || field == config->end() || field->is_null()) continue;
    return NamedTemplates(file, *field);
  }
  return source;
}

// "": it can be parsed.
std::string ErrorOf(const std::string& text) {
  if (text.size() > kChatTemplateBytesMax) {
    return "a chat template of " + std::to_string(text.size()) + " bytes, the limit is " +
           std::to_string(kChatTemplateBytesMax);
  }
  return IsValidUtf8(text) ? "" : "the chat template is not UTF-8";
}

}  // namespace

Result<ChatTemplateSource> FindChatTemplate(const ReadBesideAdapter& read) {
  ASSIGN_OR_RETURN(ChatTemplateSource source, FindSource(read));
  if (source.error.empty()) source.error = ErrorOf(source.all.value_or(""));
  if (source.error.empty()) source.error = ErrorOf(source.with_tools);
  return source;
}

Result<ChatTemplateSource> FindChatTemplateIn(const std::string& folder) {
  return FindChatTemplate([&](const std::string& file) -> Result<std::optional<std::string>> {
    const std::string path = folder + "/" + file;
    if (!FileExists(path)) return std::optional<std::string>();
    // The config holds much else.
    const bool is_config = file == kTokenizerConfigFile || file == kProcessorFile;
    ASSIGN_OR_RETURN(std::string bytes,
                     is_config ? ReadFile(path) : ReadFile(path, int64_t{kChatTemplateBytesMax}));
    return std::optional<std::string>(std::move(bytes));
  });
}

}  // namespace graft
