// Request and its message, both ways, every field. What comes from outside has any values: code
// that takes a Request checks them (ValidateSamplingParams, RefuseUnserved).
#pragma once

#include "request/request.h"
#include "rpc/request.pb.h"

namespace graft {

rpc::Request ToProto(const Request& request);
Request FromProto(const rpc::Request& proto);

}  // namespace graft
