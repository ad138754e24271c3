// Every flag also from a YAML or JSON file (JSON is YAML) and from the environment. A flag on the
// command line wins over the environment, which wins over the file.
#pragma once

#include <CLI/CLI.hpp>

#include "base/status.h"

namespace graft {

// Gives `command` the option --config and every option of it the environment variable
// GRAFT_<NAME IN CAPITALS>. Call after its options are added.
void AddConfigOptions(CLI::App& command);

// Where the command line or GRAFT_CONFIG names a file, makes its values the defaults of `command`'s
// options. Keys are the flags' names without the dashes; an unknown key is refused by name. Call
// before parsing.
Status ApplyConfigFile(CLI::App& command, int argc, const char* const* argv);

}  // namespace graft
