// The text of an HTML page: lexbor's tokens, and HTML's rules of what is shown and what begins a
// line. In one pass and without a tree, so that no page is too deep or takes long. Pure function;
// any thread.
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

// Valid UTF-8 without NUL in and out. Tags and comments go; so does with its content what browsers
// never show (script, style, template, noscript, datalist, a head but its title, what stands in
// iframe, audio, video and canvas, dialogs that are not open, elements with `hidden`, `popover` or
// display:none) and what is no text (svg, math, inline elements with aria-hidden="true"). Blocks
// begin lines, and spaces are one space but within <pre>. Character references, attributes and
// comments are read as browsers read them, and characters have their plain form
// (document/plain_characters.h). `is_wanted` is asked now and then. kInvalidArgument: a tag has too
// many attributes. kCancelled: it is not wanted any more. kResourceExhausted: no memory.
Result<std::string> HtmlText(std::string_view html, HtmlSyntax syntax = HtmlSyntax::kHtml,
                             const std::function<bool()>& is_wanted = nullptr,
                             HtmlWork* work = nullptr);

}  // namespace graft
