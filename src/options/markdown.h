// The options of a program's commands as a page's tables: docs/cli.md holds what this returns, and
// a test compares the two. Any thread.
#pragma once

#include <string>

#include "options/command.h"

namespace graft {

// A heading and a table for each command that is not hidden. An option that an earlier command has
// just so is only named.
std::string OptionsMarkdown(const Command& program);

}  // namespace graft
