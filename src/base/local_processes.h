// Processes that outlive the command that starts them: written down in a file, so that a later
// command finds them. Another process that has got the number of one that ended is not taken for
// it. One thread.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
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

// Whether a process listens there, on this machine.
bool Listens(int port);

}  // namespace graft
