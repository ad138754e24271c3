// The texts of the chat templates that lie in a folder, of a model or of an adapter. Any thread.
#pragma once

#include <optional>
#include <string>

#include "base/adapter_text.h"
#include "base/status.h"

namespace graft {

inline constexpr size_t kChatTemplateBytesMax = size_t{256} << 10;

struct ChatTemplateSource {
  std::optional<std::string> all;  // of all conversations; nothing: there is none
  std::string with_tools;          // of those with tools, where that is another one; "": it is none
  std::string file;                // that they stand in
  std::string error;               // why what stands there is none; "": `all` says it
};

// Finds chat_template.jinja, or else the `chat_template` of tokenizer_config.json, which is a
// string, or a list of named templates, or else that of chat_template.json, which models that see
// have. "default" and "tool_use" are taken from the list.
// "tool_use" may also be additional_chat_templates/tool_use.jinja. `read` gives the folder's files.
// A template of more than kChatTemplateBytesMax, or that is not UTF-8, is an error in the source.
Result<ChatTemplateSource> FindChatTemplate(const ReadBesideAdapter& read);
// The same for a folder that no other program writes in.
Result<ChatTemplateSource> FindChatTemplateIn(const std::string& folder);

}  // namespace graft
