#include "openai/chat_prompt.h"

#include <algorithm>
#include <utility>

#include "text/chat/chat_template.h"
#include "text/string_search.h"

namespace graft {
namespace {

// Efforts that ask for no more than what a model does by itself.
constexpr const char* kEffortAsItLikes = "auto";
constexpr const char* kNoEffort = "none";

OrderedJson TemplateContext(const ChatText& chat_text, const ChatRequest& request) {
  OrderedJson values = request.template_kwargs;
  const bool with_tools = !request.shown_tools.is_null();
  values["messages"] = chat_text.chat_template->FitContents(request.messages.list, with_tools);
  values["tools"] = request.shown_tools;  // HF defines both, so templates ask "is not none"
  values["documents"] = request.documents;
  const std::string& effort = request.reasoning_effort;
  if (!effort.empty() && effort != kEffortAsItLikes) values["reasoning_effort"] = effort;
  values["add_generation_prompt"] = request.add_generation_prompt;
  values["bos_token"] = chat_text.bos_token;
  values["eos_token"] = chat_text.eos_token;
  return values;
}

Result<std::string> Render(const ChatText& chat_text, const ChatRequest& request,
                           TextRanges* untrusted) {
  return chat_text.chat_template->Render(TemplateContext(chat_text, request), {}, untrusted);
}

constexpr char kBlanks[] = " \t\r\n";

// Values that this model's template does not know would be ignored without a word.
std::optional<ApiError> CheckTemplateUses(const ChatTemplate& chat_template,
                                          const ChatRequest& request) {
  const auto refused = [&](const std::string& name) {
    ApiError error = InvalidRequestError(
        name, "'" + name + "' has no effect here: this model's chat template has no use for it");
    error.code = "unsupported";
    return error;
  };
  const std::string& source = chat_template.tool_source();
  const auto knows = [&](const char* name) { return source.find(name) != std::string::npos; };
  if (!request.documents.is_null() && !knows("documents")) return refused("documents");
  const std::string& effort = request.reasoning_effort;
  const bool is_neutral = effort.empty() || effort == kEffortAsItLikes || effort == kNoEffort;
  if (!is_neutral && !knows("reasoning_effort")) return refused("reasoning_effort");
  return std::nullopt;
}

bool EndsWithMark(std::string_view text, std::string_view mark) {
  const size_t last = text.find_last_not_of(kBlanks);
  return last != std::string_view::npos && text.substr(0, last + 1).ends_with(mark);
}

// Whether a text that the model goes on with has left its reasoning open.
bool IsInReasoning(std::string_view text, ReasoningFormat format) {
  const size_t open = text.rfind(ReasoningOpeningMark(format));
  const size_t close = text.rfind(ReasoningClosingMark(format));
  return open != std::string_view::npos && (close == std::string_view::npos || close < open);
}

// Cuts a prompt behind the last message's text, as transformers does: a template that trims
// messages trims what is gone on with, too.
std::optional<ApiError> CutBehindMessage(std::string_view message, RenderedChat* chat) {
  std::string_view trimmed = message;
  trimmed.remove_prefix(std::min(trimmed.find_first_not_of(kBlanks), trimmed.size()));
  const std::string_view with_end = trimmed;
  trimmed = trimmed.substr(0, trimmed.find_last_not_of(kBlanks) + 1);
  const size_t begin = trimmed.empty() ? std::string_view::npos : FindLast(chat->text, trimmed);
  if (begin == std::string_view::npos) {
    return InvalidRequestError("continue_final_message",
                               "'continue_final_message' cannot work: this model's chat template "
                               "changes the last message's text, or leaves it out");
  }
  const bool keeps_end = std::string_view(chat->text).substr(begin).starts_with(with_end);
  chat->text.resize(begin + (keeps_end ? with_end : trimmed).size());
  TextRanges& ranges = chat->untrusted;
  while (!ranges.empty() && ranges.back().begin >= chat->text.size()) ranges.pop_back();
  if (!ranges.empty()) ranges.back().end = std::min(ranges.back().end, chat->text.size());
  return std::nullopt;
}

// Many templates know a system message at the start alone. What to do where that is why a template
// refuses these messages, which shows where it takes them without the later ones; "" where it is
// not. Goes behind the template's own words.
std::string HintOfLaterSystem(const ChatText& chat_text, const ChatRequest& request) {
  ChatRequest other = request;
  const auto is_system = [](const OrderedJson& message) { return message["role"] == "system"; };
  OrderedJson& list = other.messages.list;
  const auto later = std::remove_if(list.begin() + 1, list.end(), is_system);
  if (later == list.end()) return "";
  list.erase(later, list.end());
  if (!Render(chat_text, other, nullptr).ok()) return "";
  return " (This chat template takes no system or developer message behind the first turn: put "
         "such "
         "a text into the first message, or let a user say it.)";
}

}  // namespace

ApiResult<RenderedChat> RenderChat(const ApiContext& context, const ChatText& chat_text,
                                   ChatRequest* request) {
  if (chat_text.chat_template == nullptr) {
    const std::string& error = chat_text.error;
    return InvalidRequestError(request->messages.field,
                               chat_text.whose +
                                   (error.empty() ? " has no chat template"
                                                  : "'s chat template cannot be used: " + error) +
                                   "; use /v1/completions.");
  }
  if (auto error = CheckTemplateUses(*chat_text.chat_template, *request)) return *error;
  const bool with_tools = !request->shown_tools.is_null();
  if (!chat_text.chat_template->TakesSeveralSystems(with_tools)) {
    MergeLeadingSystem(&request->messages);
  }
  RenderedChat chat;
  TextRanges* untrusted = context.special_tokens_in_content ? nullptr : &chat.untrusted;
  Result<std::string> text = Render(chat_text, *request, untrusted);
  if (!text.ok() && !request->messages.argument_texts.empty()) {
    // Some templates, DeepSeek's among them, put arguments together as texts, and some contents.
    ChatRequest other = *request;
    UseArgumentTexts(&other.messages);
    Result<std::string> with_texts = Render(chat_text, other, untrusted);
    if (!with_texts.ok()) {
      other.messages.list = request->messages.list;
      UseEmptyContents(&other.messages);
      with_texts = Render(chat_text, other, untrusted);
    }
    if (with_texts.ok()) text = std::move(with_texts);
  }
  // Whatever the template minds, it is these messages.
  if (!text.ok()) {
    return InvalidRequestError(request->messages.field,
                               text.status().message() + HintOfLaterSystem(chat_text, *request));
  }
  if (text->empty()) {
    return InvalidRequestError(request->messages.field,
                               "The model's chat template makes an empty text of these messages; "
                               "it may know other roles than theirs. Use /v1/completions.");
  }
  chat.text = std::move(*text);
  if (request->continue_final_message) {
    const std::string last = LastTextOf(request->messages.list.back()["content"]);
    if (auto error = CutBehindMessage(last, &chat)) return *error;
  }
  return chat;
}

ApiResult<std::shared_ptr<const OutputOptions>> OutputOptionsOf(const ChatText& chat_text,
                                                                ChatRequest* request,
                                                                const std::string& prompt) {
  OutputOptions options;
  ToolRequest& tools = request->tools;
  if (tools.may_call && !tools.tools.empty()) {
    if (chat_text.tool_format == ToolFormat::kNone) {
      ApiError error = InvalidRequestError(
          "tools",
          "'tools' are of no use here: nobody knows in which form this model writes calls, since "
          "its chat template shows none. Send \"tool_choice\": \"none\", or start the server with "
          "--tool-parser NAME.");
      error.code = "unsupported";
      return error;
    }
    options.tool_format = chat_text.tool_format;
    options.tools = std::move(tools.tools);
    options.has_one_call = tools.has_one_call;
  }
  options.reasoning_format = chat_text.reasoning_format;
  options.drops_reasoning = !request->include_reasoning;
  const bool reasons = options.reasoning_format != ReasoningFormat::kNone;
  if (reasons && request->continue_final_message) {
    const std::string last = LastTextOf(request->messages.list.back()["content"]);
    options.in_reasoning = IsInReasoning(last, options.reasoning_format);
  } else if (reasons) {
    options.in_reasoning = EndsWithMark(prompt, ReasoningOpeningMark(options.reasoning_format));
  }
  if (!reasons && options.tools.empty()) return std::shared_ptr<const OutputOptions>();
  return std::make_shared<const OutputOptions>(std::move(options));
}

std::vector<int32_t> MarkTokensOf(const OutputOptions& options, const Tokenizer& tokenizer) {
  std::vector<std::string_view> marks = MarksOf(options.tool_format);
  if (options.reasoning_format != ReasoningFormat::kNone) {
    marks.push_back(ReasoningOpeningMark(options.reasoning_format));
    marks.push_back(ReasoningClosingMark(options.reasoning_format));
  }
  std::vector<int32_t> tokens;
  for (const std::string_view mark : marks) {
    const std::optional<int32_t> token = tokenizer.TokenId(mark);
    if (token.has_value() && tokenizer.IsSpecial(*token)) tokens.push_back(*token);
  }
  return tokens;
}

}  // namespace graft
