// Addresses of the web: http and https alone. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace graft {

struct WebUrl {
  std::string scheme;  // "http" or "https"
  std::string host;    // small letters; an IPv6 address without its brackets
  uint16_t port = 0;
  std::string target;  // path and query, from "/" on, as they stand

  std::string Text() const;
  // Without the query, which may be signed: for messages.
  std::string ForPeople() const;
  // Whether both lead to the same server: scheme, host and port.
  bool IsSameServer(const WebUrl& other) const {
    return scheme == other.scheme && host == other.host && port == other.port;
  }
};

// kInvalidArgument for another scheme, a user or password in it, blanks, control characters or a
// backslash. What stands behind a # is left out.
Result<WebUrl> ParseWebUrl(std::string_view text);

// What a Location header at `base` leads to: an address, "//host/path", "/path" or a relative path.
Result<WebUrl> ResolveLocation(const WebUrl& base, std::string_view location);

// Percent-encodes all but A-Z a-z 0-9 - _ . ~ and, where `keeps_slash`, the slash.
std::string PercentEncode(std::string_view text, bool keeps_slash = false);

// "a=1&b=2": encoded, in the order of the keys' and values' bytes, as signatures want it.
std::string SortedQuery(std::vector<std::pair<std::string, std::string>> fields);

}  // namespace graft
