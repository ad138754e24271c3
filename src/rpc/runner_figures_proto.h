// RunnerFigures and its message, both ways, every field.
#pragma once

#include "rpc/runner.pb.h"
#include "rpc/runner_load.h"

namespace graft {

rpc::RunnerFigures ToProto(const RunnerFigures& figures);
RunnerFigures FromProto(const rpc::RunnerFigures& proto);

}  // namespace graft
