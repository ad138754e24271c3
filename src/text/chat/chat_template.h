// A model's chat template: messages to prompt text, byte for byte as Hugging Face renders it. The
// language is the part of Jinja that real templates use, interpreted by text/jinja.
// Immutable; any thread may render.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/adapter_text.h"
#include "base/json.h"
#include "base/status.h"
#include "text/text_range.h"

namespace graft {

struct RenderOptions {
  std::optional<int64_t> now;  // what strftime_now tells, Unix seconds; the clock's time if empty
  uint64_t work_max = 20'000'000;  // about one per node evaluated; a long chat takes 100,000
};

class ChatTemplate {
 public:
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // kInvalidArgument for a syntax error, kUnimplemented with the name of a construct that Graft
  // does not have; both with the line.
  // `tool_source`, where it is not empty, is another template for conversations with tools.
  static Result<ChatTemplate> Parse(std::string_view source, std::string_view tool_source = "");

  // What an adapter brings, if it brings one.
  static Result<ChatTemplate> Parse(const AdapterText& text);

  // The template of the folder (see FindChatTemplate). Nothing if there is none.
  static Result<std::optional<ChatTemplate>> Load(const std::string& model_dir);

  // Messages as the template wants their contents. `messages` is a list of objects with a
  // "content": a string or a list of text parts (or null, which stays). Most templates get strings,
  // with parts joined by line feeds; those that walk over parts get lists, and those that look at
  // the first part alone lists of one. Which it is was found by trying when the template was parsed
  // (text/chat/content_form.h), for each role, and for conversations with tools by themselves.
  OrderedJson FitContents(OrderedJson messages, bool with_tools) const;

  // Whether it shows several system messages at the start one by one. Others refuse the second, or
  // leave it out. Found by trying, too; a template for all conversations does so with tools as
  // well.
  bool TakesSeveralSystems(bool with_tools) const;

  // The text of the template that renders conversations with tools.
  const std::string& tool_source() const;

  // `context` holds what the template names: messages, add_generation_prompt, bos_token, eos_token,
  // tools, ... (an object). kInvalidArgument where the template refuses the messages
  // (raise_exception) or cannot work with them, kUnimplemented for a method that Graft does not
  // have, kResourceExhausted past the limits on work, memory and output.
  //
  // `*untrusted` (where asked for) becomes the ranges of the text that stem from the context, other
  // than its bos_token, its eos_token and roles that are plain words: the writer of the messages
  // controls them. Where a filter mixes both so that they cannot be told apart, all is untrusted.
  Result<std::string> Render(const OrderedJson& context, const RenderOptions& options = {},
                             TextRanges* untrusted = nullptr) const;

 private:
  struct Tree;
  explicit ChatTemplate(std::unique_ptr<Tree> tree);

  std::unique_ptr<Tree> tree_;
};

}  // namespace graft
