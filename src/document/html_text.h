// The text of an HTML page, by lexbor's tokens and HTML's rules of what is shown and what begins a
// line. It takes one pass and builds no tree, so that no page is too deep or takes long. Pure
// function; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"

namespace graft {

enum class HtmlSyntax { kHtml, kXhtml };  // in XHTML any element may close itself: <title/>

inline constexpr size_t kHtmlAttributesMax = 512;  // of one tag

// What a page took: tests hold it against the page's bytes.
struct HtmlWork {
  int64_t tokens = 0;
  int64_t elements = 0;   // that began or ended
  int64_t looks = 0;      // at characters of the text that stood there already
  int64_t names_max = 0;  // of tags and attributes that were remembered at once
};

// Input and output are valid UTF-8 without NUL. Tags and comments are left out. So are elements
// that browsers never show (script, style, template, noscript, datalist, a head except its title,
// the content of iframe, audio, video and canvas, dialogs that are not open, elements with
// `hidden`, `popover` or display:none) and elements that are no text (svg, math, inline elements
// with aria-hidden="true"). Blocks begin lines. Runs of spaces become one space, except in <pre>.
// Character references, attributes and comments are read as browsers read them, and characters get
// their plain form (document/plain_characters.h). `is_wanted` is asked now and then.
// kInvalidArgument: a tag has too many attributes. kCancelled: the text is not wanted any more.
// kResourceExhausted: no memory.
Result<std::string> HtmlText(std::string_view html, HtmlSyntax syntax = HtmlSyntax::kHtml,
                             const std::function<bool()>& is_wanted = nullptr,
                             HtmlWork* work = nullptr);

}  // namespace graft
