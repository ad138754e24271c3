#include "http/cors.h"

#include <algorithm>

#include "base/strings.h"

namespace graft {
namespace {

// "*" does not cover Authorization, so it is named, and with it what every client sends.
constexpr char kAlways[] = "Authorization, Content-Type, X-Request-Id";
constexpr size_t kRequestedBytesMax = 4096;

// A header's name, by RFC 9110: nothing that could begin a header or a line of its own.
bool IsToken(std::string_view name) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
    return IsAsciiAlnum(c) || kMarks.find(c) != std::string_view::npos;
  });
}

std::string AllowedHeaders(std::string_view requested) {
  std::string allowed = kAlways;
  requested = requested.substr(0, kRequestedBytesMax);
  while (!requested.empty()) {
    const size_t end = std::min(requested.find(','), requested.size());
    const std::string_view name = Trimmed(requested.substr(0, end));
    if (IsToken(name)) allowed.append(", ").append(name);
    requested.remove_prefix(std::min(end + 1, requested.size()));
  }
  return allowed;
}

}  // namespace

bool MayPagesCall(const std::string& allowed_origin, const std::string& origin) {
  return !allowed_origin.empty() && (allowed_origin == "*" || allowed_origin == origin);
}

std::vector<std::pair<std::string, std::string>> PreflightHeaders(const std::string& allowed_origin,
                                                                  const HttpRequest& request) {
  const bool may_call = MayPagesCall(allowed_origin, request.origin);
  std::vector<std::pair<std::string, std::string>> headers = {
      {"Access-Control-Allow-Headers",
       may_call ? AllowedHeaders(request.cors_request_headers) : kAlways},
      {"Access-Control-Max-Age", "86400"}};
  if (may_call && request.cors_private_network) {
    headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  return headers;
}

}  // namespace graft
