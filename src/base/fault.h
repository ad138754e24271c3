// Faults that pass and faults that stay. kUnavailable, kResourceExhausted, kAborted and
// kDeadlineExceeded are what may be gone when the same is asked again a moment later: no descriptor
// or memory was free, a disk or a queue did not answer, another write came between. Every other
// failure stays until the request or the world changes. Code that makes a Status picks its code by
// this rule, and clients are told to try again by it. Pure functions; any thread.
#pragma once

#include <string>

#include "base/status.h"

namespace graft {

bool IsPassing(const Status& status);

// What a failed system call means, by its errno: kNotFound where nothing is there,
// kPermissionDenied where rights lack or a link leads out, kInvalidArgument for an impossible path.
// Everything else passes: kResourceExhausted for a lack of memory, kUnavailable for the rest. The
// message is `what` and the system's words.
Status SystemError(int error_number, const std::string& what);

}  // namespace graft
