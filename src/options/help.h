// A program's `help`: what --help says, by another way; and the options as a page's tables. Main
// thread.
#pragma once

#include <string>

#include "options/command.h"

namespace graft {

// `make_program`: all commands, this one among them. `example`: "graft help serve".
Command HelpCommand(Command (*make_program)(), const std::string& example);

}  // namespace graft
