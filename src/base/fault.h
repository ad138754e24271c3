// Transient and lasting faults. kUnavailable, kResourceExhausted, kAborted and kDeadlineExceeded
// are transient: the same call may succeed a moment later. For example, no descriptor or memory was
// free, a disk or a queue did not answer, or another write came between. Every other failure lasts
// until the request or the world changes. Code that makes a Status picks its code by this rule, and
// clients are told by it whether to try again. Pure functions; any thread.
#pragma once

#include <string>

#include "base/status.h"

namespace graft {

bool IsPassing(const Status& status);

// The Status of a failed system call, by its errno. kNotFound: nothing is there. kPermissionDenied:
// rights are missing, the file system is read-only, or a link leads out. kInvalidArgument: the path
// is impossible. All other faults are transient: kResourceExhausted for a lack of memory, else
// kUnavailable. The message is `what` and the system's words.
Status SystemError(int error_number, const std::string& what);

}  // namespace graft
