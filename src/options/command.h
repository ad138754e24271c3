// What picking a subcommand on the command line comes to. Main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "base/status.h"

namespace graft {

// What the picked subcommand does, options and all.
using CommandRun = std::function<Status()>;

}  // namespace graft
