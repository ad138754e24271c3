// What browsers' pages of the allowed origin may send and read. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/http_message.h"

namespace graft {

// Whether pages of `origin` (an Origin header's value) may call, by --cors-allow-origin.
bool MayPagesCall(const std::string& allowed_origin, const std::string& origin);

// The headers of the answer to a preflight, besides the methods. Pages of an allowed origin may
// send any headers, because the server reads only those that it knows, and its keys decide what
// each caller may do. Pages may also reach a server in a private network, if the browser asks for
// that.
std::vector<std::pair<std::string, std::string>> PreflightHeaders(const std::string& allowed_origin,
                                                                  const HttpRequest& request);

// Headers of answers that pages may read.
inline constexpr char kCorsExposedHeaders[] =
    "X-Request-Id, Retry-After, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "
    "x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, "
    "x-ratelimit-reset-tokens";

}  // namespace graft
