// Whether another process of this machine goes on. Any thread.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace graft {

enum class ProcessState : uint8_t {
  kRuns,
  kStopped,  // by a signal, or by a debugger
  kEnded,    // whether or not its parent has asked
};

ProcessState StateOfProcess(pid_t process);

}  // namespace graft
