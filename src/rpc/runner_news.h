// What a runner's messages say, told to a link's listener. Any thread.
#pragma once

#include "rpc/runner.pb.h"
#include "rpc/runner_link.h"

namespace graft {

RunnerFacts FactsOf(const rpc::Welcome& welcome);

// Tells the listener what a message after the welcome says.
void TellListener(const rpc::RunnerMessage& message, size_t runner, RunnerListener* listener);

}  // namespace graft
