// What browsers' pages of the allowed origin may send and read. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>

namespace graft {

// Access-Control-Allow-Headers for a preflight that asks for the names in `requested` (may be ""):
// the ones every client sends, and of those asked for all that OpenAI's clients may have.
std::string CorsAllowedHeaders(std::string_view requested);

// Headers of answers that pages may read.
inline constexpr char kCorsExposedHeaders[] =
    "X-Request-Id, Retry-After, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "
    "x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, "
    "x-ratelimit-reset-tokens";

}  // namespace graft
