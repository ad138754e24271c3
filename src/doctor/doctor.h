// `graft doctor`: whether a device computes rightly, and how fast it should be. It sends nothing.
#pragma once

#include "options/command.h"

namespace graft {

Command DoctorCommand();

}  // namespace graft
