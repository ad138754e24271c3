// Request and its message, both ways, every field. What comes from outside has any values: code
// that takes a Request checks them (ValidateSamplingParams, RefuseUnserved).
#pragma once

#include "request/request.h"
#include "rpc/request.pb.h"
#include "rpc/request_contents.h"

namespace graft {

rpc::Request ToProto(const Request& request);
Request FromProto(const rpc::Request& proto);
// What other requests have, too, is shared with them.
Request FromProto(const rpc::Request& proto, RequestContents& contents);

}  // namespace graft
