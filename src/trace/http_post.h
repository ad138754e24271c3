// One POST over plain HTTP/1.1, for a thread that may wait: a connection each time, which costs a
// collector nearby nothing at a request a second. Blocks for `timeout` at most for each of
// connecting, sending and receiving.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/status.h"

namespace graft {

struct HttpTarget {
  std::string host;
  uint16_t port = 80;
  std::string path;  // from "/" on
};

// "http://HOST[:PORT][/PATH]"; [] around an IPv6 address.
Result<HttpTarget> ParseHttpTarget(const std::string& url);

// The status of the answer. kUnavailable: there was no answer.
Result<int> PostJson(const HttpTarget& target, const std::string& body,
                     std::chrono::milliseconds timeout);

}  // namespace graft
