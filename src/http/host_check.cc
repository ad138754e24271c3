#include "http/host_check.h"

#include <algorithm>

#include "base/host_port.h"
#include "base/strings.h"

namespace graft {
namespace {

// "Localhost.:8000" to "localhost", "[::1]:8000" to "[::1]"; "" for what is no host.
std::string HostName(std::string_view host) {
  const size_t bracket = host.starts_with('[') ? host.find(']') + 1 : 0;  // 0 for "[::1" too
  const size_t end = std::min(host.find(':', bracket), host.size());
  if (bracket != 0 && end != bracket) return "";
  std::string name = LowerCase(host.substr(0, end));
  if (name.ends_with('.')) name.pop_back();
  return name;
}

}  // namespace

std::vector<std::string> ServedHosts(const std::vector<std::string>& given,
                                     const std::string& bind_host, bool needs_key) {
  std::vector<std::string> hosts;
  if (std::find(given.begin(), given.end(), "*") != given.end()) return hosts;
  const bool is_ipv6 = bind_host.find(':') != std::string::npos && !bind_host.starts_with('[');
  const std::string bound = is_ipv6 ? "[" + bind_host + "]" : bind_host;
  if (given.empty() && (needs_key || !IsLoopback(bind_host))) return hosts;
  for (const std::string& host : given) hosts.push_back(HostName(host));
  // Requests by these names come from this machine, if the server is on no other.
  if (given.empty()) hosts = {"localhost", "127.0.0.1", "[::1]", HostName(bound)};
  return hosts;
}

bool IsServedHost(const std::vector<std::string>& hosts, std::string_view host) {
  if (hosts.empty() || host.empty()) return true;
  return std::find(hosts.begin(), hosts.end(), HostName(host)) != hosts.end();
}

}  // namespace graft
