#include "base/status.h"

namespace graft {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kCancelled:
      return "CANCELLED";
    case StatusCode::kUnknown:
      return "UNKNOWN";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case StatusCode::kPermissionDenied:
      return "PERMISSION_DENIED";
    case StatusCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case StatusCode::kAborted:
      return "ABORTED";
    case StatusCode::kOutOfRange:
      return "OUT_OF_RANGE";
    case StatusCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case StatusCode::kInternal:
      return "INTERNAL";
    case StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case StatusCode::kDataLoss:
      return "DATA_LOSS";
    case StatusCode::kUnauthenticated:
      return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
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
GRAFT_DEFINE_ERROR(Unauthenticated)
#undef GRAFT_DEFINE_ERROR

}  // namespace graft
