// What gRPC itself says, in this process's log: its lines are of its own form otherwise, which a
// reader of JSON does not expect. Any thread.
#pragma once

namespace graft {

// From here on. What it says is a warning at most: calls that fail say so themselves.
void TakeGrpcLog();

}  // namespace graft
