// An address and a port in one text, as gRPC and URLs have them. Pure; any thread.
#pragma once

#include <string>

namespace graft {

// "localhost:80"; "[::1]:80", whether the IPv6 address stands in brackets already or not.
inline std::string HostAndPort(const std::string& host, int port) {
  const bool is_bare_ipv6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return (is_bare_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

// "::1" of "[::1]"; other hosts as they are.
inline std::string WithoutBrackets(const std::string& host) {
  const bool has_them = host.starts_with('[') && host.ends_with(']');
  return has_them ? host.substr(1, host.size() - 2) : host;
}

// Whether it is this machine alone, by its name or by an address, in brackets or not.
inline bool IsLoopback(const std::string& host) {
  return host == "localhost" || WithoutBrackets(host) == "::1" || host.starts_with("127.");
}

}  // namespace graft
