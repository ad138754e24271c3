// Names of adapters, as requests give them. Pure functions.
#pragma once

#include <string>

#include "base/status.h"

namespace graft {

// kInvalidArgument says what a name may have: 1 to 200 letters, digits and . _ - : / @
Status CheckAdapterName(const std::string& name);

// A text as a name: a - in place of every byte but letters, digits and . _ -
std::string AdapterNameFrom(const std::string& text);

}  // namespace graft
