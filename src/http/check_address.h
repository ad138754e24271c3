// Checks whether a server can listen at an address. Acceptor implements it; its header would bring
// in Asio, which compiles slowly. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace graft {

// Asked before anything slow is loaded. It takes the port for a moment. The error says what to
// change.
Status CheckAddress(const std::string& host, uint16_t port);

}  // namespace graft
