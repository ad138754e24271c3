// The answer to a request that fails: an HTTP status and OpenAI's error object. Plain data; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/json.h"
#include "base/status.h"

namespace graft {

struct ApiError {
  int http_status = 500;
  std::string message;
  std::string type = "server_error";
  std::string param;      // the field at fault, as a path ("messages[1].content"); "" for none
  std::string code;       // a word that programs compare with; "" for none
  int retry_after_s = 0;  // > 0: sent as Retry-After
  // Not "": a model of this name may be had from a source, and the request be read again then.
  std::string model_to_fetch = {};

  // {"error": {"message", "type", "param", "code"}}, the empty ones null.
  Json ToJson() const;
};

// 400 about one field.
ApiError InvalidRequestError(std::string param, std::string message);

// 404 model_not_found. `nearest` is a list of names ready to read, "" for none.
ApiError ModelNotFoundError(const std::string& model, const std::string& nearest);

// 503 of a server that is ending.
ApiError DrainingError();

// 401, 403, 404, 405 and the like: the type follows from the status.
ApiError HttpError(int http_status, std::string code, std::string message);

// The error that a client gets for a failure below the server. `param` as above.
ApiError ErrorFromStatus(const Status& status, std::string param = "");

// `message` without the path of a server's folder. A place inside `path` is named relative to it,
// and `path` itself is replaced by `word`. Another place in quotes keeps only its last name. If the
// message still names a place on the server, returns a sentence that does not. `given` is a path
// that the client itself sent; in quotes it may stay.
std::string HidePath(const std::string& message, const std::string& path,
                     const std::string& word = "its folder", const std::string& given = "");

// A value, or the error that the client gets instead.
template <typename T>
class ApiResult {
 public:
  ApiResult(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design
  ApiResult(ApiError error) : error_(std::move(error)) {}  // NOLINT: implicit by design

  bool ok() const { return value_.has_value(); }
  const ApiError& error() const { return error_; }
  T& operator*() {
    CHECK(ok()) << error_.message;
    return *value_;
  }
  T* operator->() { return &**this; }

 private:
  std::optional<T> value_;
  ApiError error_;
};

// ASSIGN_OR_RETURN_ERROR(Json json, ParseBody(body)): the value, or return the error.
#define ASSIGN_OR_RETURN_ERROR(lhs, expr) \
  ASSIGN_OR_RETURN_ERROR_INNER(GRAFT_CONCAT(assign_or_return_, __LINE__), lhs, expr)
#define ASSIGN_OR_RETURN_ERROR_INNER(result, lhs, expr) \
  auto result = (expr);                                 \
  if (!result.ok()) return result.error();              \
  lhs = std::move(*result)

}  // namespace graft
