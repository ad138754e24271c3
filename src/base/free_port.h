// A port for a server that is started on this machine, by `graft cluster up` or by a test.
#pragma once

#include "base/status.h"

namespace graft {

// A TCP port of 127.0.0.1 at which no process listens and which no other process was given that
// looked here or by tools/local_server.py and still runs. It lies below the range from which Linux
// takes the ports of outgoing connections: one of those could take the port before its server does.
// Any thread.
Result<int> FindFreePort();

}  // namespace graft
