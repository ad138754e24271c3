// graft bench and graft profile: all that they measure, behind two functions, so that a program of
// its own, or one without it, is a matter of linking. Main thread.
#pragma once

#include "options/command.h"

namespace graft {

// `bench` with its subcommands.
Command BenchCommand();

// `profile`: what steps take on this machine, for placement and simulations.
Command ProfileCommand();

}  // namespace graft
