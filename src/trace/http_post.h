// Sends one POST over plain HTTP/1.1, from a thread that may wait. Each call makes a connection,
// which costs little at one request a second to a collector nearby. Blocks for `timeout` at most
// for each of connecting, sending and receiving.
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
