#include "base/fault.h"

#include <cerrno>
#include <system_error>

namespace graft {
namespace {

StatusCode CodeOfErrno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
    case EXDEV:
    case ELOOP:
      return StatusCode::kPermissionDenied;
    case EINVAL:
    case EISDIR:
    case ENAMETOOLONG:
      return StatusCode::kInvalidArgument;
    case ENOMEM:
      return StatusCode::kResourceExhausted;
    default:  // EMFILE, ENFILE, EIO, ESTALE, ETIMEDOUT, ...
      return StatusCode::kUnavailable;
  }
}

}  // namespace

bool IsPassing(const Status& status) {
  switch (status.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kResourceExhausted:
    case StatusCode::kAborted:
    case StatusCode::kDeadlineExceeded:
      return true;
    default:
      return false;
  }
}

Status SystemError(int error_number, const std::string& what) {
  return Status(CodeOfErrno(error_number),
                what + ": " + std::generic_category().message(error_number));
}

}  // namespace graft
