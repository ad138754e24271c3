// The messages of a chat as templates want them, from OpenAI's JSON. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "http/field_reader.h"

namespace graft {

struct RequestLimits;

struct ChatMessages {
  const char* field = "messages";  // of the request, for errors
  // [{"role", "content", ...}]: content is a string, a list of two or more text parts, or null
  // beside tool_calls. The arguments of calls are objects, as Hugging Face hands them to templates.
  OrderedJson list = OrderedJson::array();
  // The same arguments in the client's own words, in the order of the calls: what some templates
  // expect in their place.
  std::vector<std::string> argument_texts;
  size_t num_dropped_bytes = 0;       // of texts that no message shows, and that count all the same
  bool has_argument_objects = false;  // some came as objects, and their keys have lost their order
};

// A message's content of these texts: the one text, or a list of parts.
OrderedJson ContentOf(std::vector<std::string> texts);

// The last text of a content; "" where there is none.
std::string LastTextOf(const OrderedJson& content);

// Adds a call to the `calls` of a message that is in the list or on its way there.
void AddToolCall(const std::string& id, const std::string& name, std::string arguments,
                 ChatMessages* messages, OrderedJson* calls);

// 400 where all texts together are longer than one request's may be.
std::optional<ApiError> CheckTextBytes(const ChatMessages& messages, const RequestLimits& limits);

// Takes the field "messages".
void ReadMessages(FieldReader& reader, const RequestLimits& limits, ChatMessages* messages);

// System messages at the start become one, for templates that know one alone: their texts, a blank
// line between them.
void MergeLeadingSystem(ChatMessages* messages);

// Gives arguments that came as objects the order that their keys have in `list`, the same messages
// as the client wrote them.
void UseArgumentOrder(const OrderedJson& list, ChatMessages* messages);

// Puts `argument_texts` in the place of the objects.
void UseArgumentTexts(ChatMessages* messages);

// Puts "" in the place of contents that are null.
void UseEmptyContents(ChatMessages* messages);

}  // namespace graft
