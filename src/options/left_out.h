// Commands that a program was built without: `make demo` compiles what it runs, no more.
#pragma once

#include <string>

#include "options/command.h"

namespace graft {

// A command of that name which fails with UNIMPLEMENTED, naming what builds the program with it.
// Main thread.
Command LeftOutCommand(const std::string& name, const std::string& help);

}  // namespace graft
