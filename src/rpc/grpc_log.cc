#include "rpc/grpc_log.h"

#include <grpc/support/log.h>

#include <string_view>

#include "base/log.h"

namespace graft {
namespace {

void Say(gpr_log_func_args* line) {
  const std::string_view file = line->file;
  const std::string_view name = file.substr(file.rfind('/') + 1);
  if (line->severity == GPR_LOG_SEVERITY_ERROR) {
    LOG_WARN("gRPC: {} ({}:{})", line->message, name, line->line);
  } else {
    LOG_DEBUG("gRPC: {} ({}:{})", line->message, name, line->line);
  }
}

}  // namespace

void TakeGrpcLog() { gpr_set_log_function(Say); }

}  // namespace graft
