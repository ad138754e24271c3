// A worker process of the server, which the program starts itself. Every program with servers has
// this command. Main thread.
#pragma once

#include <string>
#include <vector>

#include "options/command.h"

namespace graft {

// Hidden from help.
Command WorkerCommand();

// The program and its first argument that start such a process.
std::vector<std::string> WorkerProgram();

}  // namespace graft
