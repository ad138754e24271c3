#include "base/status.h"

#include <iterator>

namespace graft {

std::string_view StatusCodeName(StatusCode code) {
  constexpr std::string_view kNames[] = {"OK",
                                         "CANCELLED",
                                         "UNKNOWN",
                                         "INVALID_ARGUMENT",
                                         "DEADLINE_EXCEEDED",
                                         "NOT_FOUND",
                                         "ALREADY_EXISTS",
                                         "PERMISSION_DENIED",
                                         "RESOURCE_EXHAUSTED",
                                         "FAILED_PRECONDITION",
                                         "ABORTED",
                                         "OUT_OF_RANGE",
                                         "UNIMPLEMENTED",
                                         "INTERNAL",
                                         "UNAVAILABLE",
                                         "DATA_LOSS",
                                         "UNAUTHENTICATED"};
  const auto i = static_cast<size_t>(code);
  return i < std::size(kNames) ? kNames[i] : "UNKNOWN";
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  return std::string(StatusCodeName(code_)) + ": " + message_;
}

Status Status::WithContext(std::string_view where) const {
  if (ok()) return *this;
  return Status(code_, std::string(where) + ": " + message_);
}

#define GRAFT_DEFINE_ERROR(name)                            \
  Status name##Error(std::string message) {                 \
    return Status(StatusCode::k##name, std::move(message)); \
  }
GRAFT_DEFINE_ERROR(InvalidArgument)
GRAFT_DEFINE_ERROR(NotFound)
GRAFT_DEFINE_ERROR(AlreadyExists)
GRAFT_DEFINE_ERROR(PermissionDenied)
GRAFT_DEFINE_ERROR(ResourceExhausted)
GRAFT_DEFINE_ERROR(FailedPrecondition)
GRAFT_DEFINE_ERROR(Unimplemented)
GRAFT_DEFINE_ERROR(Internal)
GRAFT_DEFINE_ERROR(Unavailable)
GRAFT_DEFINE_ERROR(Cancelled)
GRAFT_DEFINE_ERROR(DeadlineExceeded)
GRAFT_DEFINE_ERROR(DataLoss)
#undef GRAFT_DEFINE_ERROR

}  // namespace graft
