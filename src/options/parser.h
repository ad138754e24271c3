// From the words of a command line, a config file and the environment to something to run. The
// command line wins over the environment, which wins over the file. One thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "options/command.h"

namespace graft {

// Returns the command of `program` that `args` (without the program's own name) select, with its
// options set. For --help and --version (`version`) it returns a command that prints the answer.
// Errors say what to write instead, and where the value came from: a flag, a variable or a file's
// key.
Result<CommandRun> ParseCommandLine(const Command& program, const std::string& version,
                                    const std::vector<std::string>& args);

// main: parses, runs, says on stderr what went wrong. The exit code: 0, 2 for wrong use, else 1.
int RunProgram(const Command& program, const std::string& version, int argc,
               const char* const* argv);

}  // namespace graft
