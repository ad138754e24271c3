// TokenEvent and its message, both ways. What comes from outside is checked: a finish reason or a
// status code that this version does not know becomes an error with a sentence, never a cast.
#pragma once

#include "request/token_event.h"
#include "rpc/token_event.pb.h"

namespace graft {

rpc::Status ToProto(const Status& status);
Status FromProto(const rpc::Status& proto);

rpc::TokenEvent ToProto(const TokenEvent& event);
TokenEvent FromProto(const rpc::TokenEvent& proto);

}  // namespace graft
