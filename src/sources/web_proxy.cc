#include "sources/web_proxy.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "base/host_port.h"
#include "base/strings.h"

namespace graft {
namespace {

std::string FirstOf(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

// "example.org" and ".example.org" are the host and all below it; "*" is every host.
bool IsExempt(const std::string& host, std::string_view list) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    std::string one = LowerCase(Trimmed(list.substr(0, end)));
    list.remove_prefix(std::min(end + 1, list.size()));
    if (one == "*") return true;
    if (one.starts_with('.')) one.erase(0, 1);
    if (!one.empty() && (host == one || host.ends_with("." + one))) return true;
  }
  return false;
}

}  // namespace

std::string ProxyFor(const WebUrl& url) {
  // HTTP_PROXY in capitals is a header of a request where programs run as CGI.
  const std::string proxy = url.scheme == "https"
                                ? FirstOf({"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"})
                                : FirstOf({"http_proxy", "all_proxy", "ALL_PROXY"});
  if (proxy.empty() || IsLoopback(url.host)) return "";
  return IsExempt(url.host, FirstOf({"no_proxy", "NO_PROXY"})) ? "" : proxy;
}

bool IsPublicName(const std::string& host) {
  const size_t dot = host.rfind('.');
  if (dot == std::string::npos || host.find(':') != std::string::npos) return false;
  const std::string last = host.substr(dot + 1);
  // Decimal, octal and hexadecimal addresses end in a digit or begin so.
  if (last.empty() || IsAsciiDigit(last.front())) return false;
  for (const char* const inner : {"localhost", "local", "internal", "intranet", "lan", "home",
                                  "corp", "arpa", "onion", "test", "invalid"}) {
    if (last == inner) return false;
  }
  return true;
}

}  // namespace graft
