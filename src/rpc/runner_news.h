// What runners and frontends say of themselves, in messages and out of them, and what a runner says
// later, told to a link's listener. Any thread.
#pragma once

#include "rpc/runner.pb.h"
#include "rpc/runner_link.h"
#include "rpc/runner_load.h"

namespace graft {

rpc::BaseModel ToProto(const BaseModelId& base);
BaseModelId FromProto(const rpc::BaseModel& proto);

RunnerFacts FactsOf(const rpc::Welcome& welcome);

// Tells the listener what a message after the welcome says.
void TellListener(const rpc::RunnerMessage& message, size_t runner, RunnerListener* listener);

// RunnerFigures and its message, both ways, every field.
rpc::RunnerFigures ToProto(const RunnerFigures& figures);
RunnerFigures FromProto(const rpc::RunnerFigures& proto);

}  // namespace graft
