// Processes and ports of this machine. Those that outlive the command that starts them are written
// down in a file, so that a later command finds them. Another process that has got the number of
// one that ended is not taken for it. One thread, but for StateOfProcess and FindFreePort.
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

// A TCP port of 127.0.0.1 at which no process listens and which no other process was given that
// looked here or by tools/local_server.py and still runs. It lies below the range from which Linux
// takes the ports of outgoing connections: one of those could take the port before its server does.
Result<int> FindFreePort();

}  // namespace graft
