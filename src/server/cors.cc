#include "server/cors.h"

#include <algorithm>

namespace graft {
namespace {

// "*" does not cover Authorization, so they are named. What the clients send besides has common
// beginnings and changing ends.
constexpr char kAlways[] =
    "Authorization, Content-Type, X-Request-Id, OpenAI-Beta, OpenAI-Organization, OpenAI-Project, "
    "X-Stainless-Arch, X-Stainless-Async, X-Stainless-Custom-Poll-Interval, "
    "X-Stainless-Helper-Method, X-Stainless-Lang, X-Stainless-OS, X-Stainless-Package-Version, "
    "X-Stainless-Poll-Helper, X-Stainless-Raw-Response, X-Stainless-Read-Timeout, "
    "X-Stainless-Retry-Count, X-Stainless-Runtime, X-Stainless-Runtime-Version, "
    "X-Stainless-Timeout";
constexpr std::string_view kBeginnings[] = {"x-stainless-", "openai-"};
constexpr size_t kRequestedBytesMax = 4096;

std::string Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t") + 1 - begin));
}

bool IsOpenAiHeader(const std::string& name) {
  std::string lower;
  for (const char c : name) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!is_letter && !(c >= '0' && c <= '9') && c != '-') return false;
    lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](std::string_view begin) { return lower.starts_with(begin); });
}

}  // namespace

std::string CorsAllowedHeaders(std::string_view requested) {
  std::string allowed = kAlways;
  requested = requested.substr(0, kRequestedBytesMax);
  while (!requested.empty()) {
    const size_t end = std::min(requested.find(','), requested.size());
    const std::string name = Trimmed(requested.substr(0, end));
    if (IsOpenAiHeader(name)) allowed += ", " + name;
    requested.remove_prefix(std::min(end + 1, requested.size()));
  }
  return allowed;
}

}  // namespace graft
