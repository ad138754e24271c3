// graft profile: what steps take on this machine, for placement and simulations. Main thread.
#pragma once

#include "options/command.h"

namespace graft {

Command ProfileCommand();

}  // namespace graft
