#include "http/api_error.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

#include "base/fault.h"

namespace graft {
namespace {

const char* TypeOfHttpStatus(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "server_error";
  }
}

// What a failure below the server is for a client; any other is internal.
struct Answer {
  StatusCode code;
  int http_status;
  const char* word;
};
constexpr Answer kAnswers[] = {{StatusCode::kInvalidArgument, 400, "invalid_value"},
                               {StatusCode::kOutOfRange, 400, "invalid_value"},
                               {StatusCode::kFailedPrecondition, 400, "invalid_value"},
                               // Data lost in an adapter's files: trying again changes nothing.
                               {StatusCode::kDataLoss, 400, "invalid_value"},
                               {StatusCode::kUnimplemented, 400, "unsupported"},
                               {StatusCode::kUnauthenticated, 401, "invalid_api_key"},
                               {StatusCode::kPermissionDenied, 403, "permission_denied"},
                               {StatusCode::kNotFound, 404, "not_found"},
                               {StatusCode::kAlreadyExists, 409, "already_exists"},
                               {StatusCode::kResourceExhausted, 429, "overloaded"},
                               {StatusCode::kUnavailable, 503, "unavailable"},
                               {StatusCode::kAborted, 503, "unavailable"},
                               {StatusCode::kCancelled, 503, "unavailable"},
                               {StatusCode::kDeadlineExceeded, 504, "timeout"}};

// A slash with a name after it, at the start of a word: no fraction, and no comment that a parser
// stumbled over.
bool BeginsPath(std::string_view text, size_t at) {
  constexpr std::string_view kBeforePath = " '\"(=";
  if (text[at] != '/') return false;
  if (at > 0 && kBeforePath.find(text[at - 1]) == std::string_view::npos) return false;
  const size_t name = text.find_first_not_of('/', at);
  if (name == std::string_view::npos) return false;
  const auto c = static_cast<unsigned char>(text[name]);
  return std::isalnum(c) != 0 || c >= 0x80 ||
         std::string_view("._-~").find(text[name]) != std::string_view::npos;
}

// Where the quotes that begin before `at` end; npos: they do not.
size_t EndOfQuotes(std::string_view text, size_t at) {
  const char quote = at > 0 ? text[at - 1] : ' ';
  if (quote != '\'' && quote != '"') return std::string_view::npos;
  for (size_t end = text.find(quote, at); end != std::string_view::npos;
       end = text.find(quote, end + 1)) {
    const bool goes_on =
        end + 1 < text.size() && std::isalnum(static_cast<unsigned char>(text[end + 1])) != 0;
    if (!goes_on) return end;
  }
  return std::string_view::npos;
}

Json StringOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

Json ApiError::ToJson() const {
  return {{"error",
           {{"message", message},
            {"type", type},
            {"param", StringOrNull(param)},
            {"code", StringOrNull(code)}}}};
}

ApiError HttpError(int http_status, std::string code, std::string message) {
  ApiError error;
  error.http_status = http_status;
  error.type = TypeOfHttpStatus(http_status);
  error.code = std::move(code);
  error.message = std::move(message);
  return error;
}

ApiError InvalidRequestError(std::string param, std::string message) {
  ApiError error = HttpError(400, "invalid_value", std::move(message));
  error.param = std::move(param);
  return error;
}

ApiError ModelNotFoundError(const std::string& model, const std::string& nearest) {
  std::string message = "The model '" + model + "' does not exist or you do not have access to it.";
  if (!nearest.empty()) message += " The nearest names are: " + nearest + ".";
  ApiError error = HttpError(404, "model_not_found", std::move(message));
  error.param = "model";
  return error;
}

ApiError DrainingError() {
  ApiError error = HttpError(503, "draining", "The server is shutting down; try another one.");
  error.retry_after_s = 1;
  return error;
}

ApiError ErrorFromStatus(const Status& status, std::string param) {
  const auto answer = std::find_if(std::begin(kAnswers), std::end(kAnswers),
                                   [&](const Answer& one) { return one.code == status.code(); });
  const bool is_known = answer != std::end(kAnswers);
  ApiError error = HttpError(is_known ? answer->http_status : 500,
                             is_known ? answer->word : "internal_error", status.message());
  // Only the server itself cancels what a client still awaits.
  const bool is_cancelled = status.code() == StatusCode::kCancelled;
  if (is_cancelled || IsPassing(status)) error.retry_after_s = 1;
  error.param = std::move(param);
  return error;
}

std::string HidePath(const std::string& message, const std::string& path, const std::string& word,
                     const std::string& given) {
  std::string told = message;
  const std::string folder = path + "/";
  for (size_t at = 0; !path.empty() && (at = told.find(folder, at)) != std::string::npos;) {
    told.erase(at, folder.size());
  }
  for (size_t at = 0; !path.empty() && (at = told.find(path, at)) != std::string::npos;) {
    told.replace(at, path.size(), word);
  }
  // Other names may lead to the same content in other folders.
  for (size_t i = 0; i < told.size(); ++i) {
    if (!BeginsPath(told, i)) continue;
    if (i > 0 && !given.empty() && told.compare(i - 1, given.size() + 2, "'" + given + "'") == 0) {
      continue;
    }
    // Quotes show where the path ends. Its last name is kept, which helps where an adapter's own
    // files name the path, say of the base that it was trained on.
    const size_t end = EndOfQuotes(told, i);
    if (end == std::string::npos) return "that failed; the server's log says why";
    const size_t name = told.find_last_not_of('/', end - 1);
    const size_t folders = told.rfind('/', name);
    const std::string kept = folders > i ? told.substr(folders, name + 1 - folders) : "";
    told.replace(i, end - i, "..." + kept);
    i += 3 + kept.size();
  }
  return told;
}

}  // namespace graft
