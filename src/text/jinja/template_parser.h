// Tokens of a template into its tree. Syntax is Jinja 3's as chat templates use it. Any thread.
#pragma once

#include <string_view>

#include "base/status.h"
#include "text/jinja/ast.h"

namespace graft::jinja {

// Trees are walked by recursion, so their height is bounded.
inline constexpr int kNestingMax = 100;     // brackets and blocks within each other
inline constexpr int kExprHeightMax = 250;  // also counts a + b + c + ...

// kInvalidArgument for what is no Jinja, kUnimplemented with the name of a tag, filter, test or
// feature that Graft does not have; both with the line.
Result<Block> ParseTemplate(std::string_view source);

}  // namespace graft::jinja
