// graft bench: all that it measures, behind one function, so that a program without it is a matter
// of linking. Main thread.
#pragma once

#include "options/command.h"

namespace graft {

// `bench` with its subcommands.
Command BenchCommand();

}  // namespace graft
