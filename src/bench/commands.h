// The subcommands of graft bench, one file each. Main thread.
#pragma once

#include <string>
#include <vector>

#include "options/command.h"
#include "runtime/runtime_options.h"

namespace graft {

Command BenchAdaptersCommand();
Command BenchAssistCommand();
Command BenchExchangeCommand();
Command BenchOpsCommand();
Command BenchParallelCommand();
Command BenchServeCommand();
Command BenchStepCommand();

// Option rows that several subcommands have.
std::vector<Option> BenchModelOptionRows(std::string& shape, RuntimeOptions& runtime);
Option JsonOptionRow(std::string& path);

}  // namespace graft
