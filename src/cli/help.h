// graft help: what --help says, by another way; and the options as a page's tables. Main thread.
#pragma once

#include "options/command.h"

namespace graft {

// `make_program`: all commands, this one among them.
Command HelpCommand(Command (*make_program)());

}  // namespace graft
