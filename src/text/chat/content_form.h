// Finds out in which form a chat template wants messages. Most templates write a content as a
// string, some walk over a list of parts, a few look only at the first part, and most take one
// system message at the start. Templates do not say so, and one that gets another form may silently
// leave the text out. So short conversations are rendered to see what the template shows. Pure
// functions; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "base/json.h"
#include "base/status.h"

namespace graft {

enum class ContentForm : uint8_t {
  kText,
  kParts,    // [{"type": "text", "text": ...}, ...]
  kOnePart,  // the same, of which the first alone is put out
};

// The forms of the roles "user", "system", "assistant" and "tool", in this order.
using ContentForms = std::array<ContentForm, 4>;

// A role's content is a string unless its text is missing then and there with parts. `with_tools`:
// tools are among what is rendered.
using RenderFunction = std::function<Result<std::string>(const OrderedJson& context)>;
ContentForms FindContentForms(bool with_tools, const RenderFunction& render);

// Whether both of two system messages at the start, in these forms, are shown.
bool TakesSeveralSystems(const ContentForms& forms, bool with_tools, const RenderFunction& render);

// The texts of a list of text parts, line feeds between them, as vLLM joins them.
std::string JoinParts(const OrderedJson& parts);

// Gives a message's content, a string or a list of text parts, the form that its role has.
// Other contents stay.
void FitContent(const ContentForms& forms, OrderedJson* message);

}  // namespace graft
