// The text of an HTML page, read in one pass and without nesting, so that no page is too deep or
// takes long. Pure function; any thread.
#pragma once

#include <string>
#include <string_view>

namespace graft {

// Valid UTF-8 in and out. Tags and comments go; what is never shown (script, style, template) goes
// with its content; blocks begin lines, and spaces are one space but within <pre>. Entities are
// decoded; one that is not known stays as it is written.
std::string HtmlText(std::string_view html);

}  // namespace graft
