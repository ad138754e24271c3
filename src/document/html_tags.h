// What HTML's standard says of each of its elements, as far as a page's text depends on it: a table
// by lexbor's numbers. Read-only; any thread.
#pragma once

#include <cstdint>

namespace graft {

// Which element, by lexbor's number for those of HTML, SVG and MathML; custom ones have numbers
// from kCustomTag on.
using HtmlTag = uint32_t;

namespace html_tag {
inline constexpr uint32_t kBlock = 1U << 0;      // begins a line
inline constexpr uint32_t kParagraph = 1U << 1;  // and leaves one free
inline constexpr uint32_t kCell = 1U << 2;       // stands in a line beside others
inline constexpr uint32_t kVoid = 1U << 3;       // has no content
inline constexpr uint32_t kLeftOut = 1U << 4;    // its content is never shown
inline constexpr uint32_t kPreformatted = 1U << 5;
inline constexpr uint32_t kFormatting = 1U << 6;  // may end before what was begun in it
inline constexpr uint32_t kEndsP = 1U << 7;       // its beginning ends an open <p>
inline constexpr uint32_t kHeading = 1U << 8;
inline constexpr uint32_t kTablePart = 1U << 9;
inline constexpr uint32_t kSpecial = 1U << 10;      // no end of an inline element reaches past it
inline constexpr uint32_t kForeign = 1U << 11;      // svg and math: another language begins
inline constexpr uint32_t kHtmlAgain = 1U << 12;    // in such a language: HTML again
inline constexpr uint32_t kEndsForeign = 1U << 13;  // cannot stand in such a language, so ends it
// Ends of elements do not reach past those that are open with such a mark.
inline constexpr uint32_t kScope = 1U << 14;
inline constexpr uint32_t kButtonScope = 1U << 15;
inline constexpr uint32_t kListScope = 1U << 16;
inline constexpr uint32_t kTableScope = 1U << 17;
}  // namespace html_tag

extern const HtmlTag kCustomTag;

// Marks of html_tag; none for custom elements.
uint32_t HtmlTagMarks(HtmlTag tag);

}  // namespace graft
