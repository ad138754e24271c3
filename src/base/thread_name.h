// Names of this process's threads, as `top -H` and /proc/PID/task/*/comm show them, so that an
// operator sees which part takes the processors.
#pragma once

namespace graft {

// Names the calling thread; 15 bytes at most. Threads that it starts have that name until they
// name themselves.
void NameThread(const char* name);

}  // namespace graft
