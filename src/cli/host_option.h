// The option of an address to listen on, for every subcommand that opens a port.
#pragma once

#include <string>

#include "options/option.h"

namespace graft {

// An address to listen on or a name, kept without the brackets that an IPv6 address may have.
OptionTarget HostTarget(std::string& host);

}  // namespace graft
