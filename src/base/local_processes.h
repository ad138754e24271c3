// Processes and ports of this machine. Processes that outlive the command that starts them are
// recorded in a file, so that a later command finds them. If another process has got the number of
// one that ended, it is not mistaken for it. One thread, except for StateOfProcess and
// FindFreePort.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/status.h"

namespace graft {

struct LocalProcess {
  std::string name;
  pid_t pid = 0;
  int64_t started = 0;  // as the kernel counts it
};

// In a session of its own, its output appended to `log_file`. kNotFound: no such program.
Result<LocalProcess> StartProcess(const std::string& name,
                                  const std::vector<std::string>& arguments,
                                  const std::string& log_file);
bool IsAlive(const LocalProcess& process);
// SIGTERM to all, then SIGKILL to those that are there after `patience_s`.
void EndProcesses(const std::vector<LocalProcess>& processes, int patience_s);

Json ToJson(const std::vector<LocalProcess>& processes);
std::vector<LocalProcess> ProcessesFromJson(const Json& json);

// Whether any process goes on.
enum class ProcessState : uint8_t {
  kRuns,
  kStopped,  // by a signal, or by a debugger
  kEnded,    // whether or not its parent has asked
};
ProcessState StateOfProcess(pid_t pid);

// Whether a process listens there, on this machine.
bool Listens(int port);

// A TCP port of 127.0.0.1 at which no process listens. It is not one that this function or
// tools/local_server.py gave to another process that still runs. It lies below the range from which
// Linux takes the ports of outgoing connections, one of which could otherwise take the port before
// its server does.
Result<int> FindFreePort();

}  // namespace graft
