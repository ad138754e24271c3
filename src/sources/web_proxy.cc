#include "sources/web_proxy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
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

// Whether an address is in "10.0.0.0/8".
bool IsInBlock(const std::string& host, const std::string& block) {
  const size_t slash = block.find('/');
  int bits = 0;
  in_addr address{};
  in_addr network{};
  if (slash == block.npos || inet_pton(AF_INET, host.c_str(), &address) != 1 ||
      inet_pton(AF_INET, block.substr(0, slash).c_str(), &network) != 1) {
    return false;
  }
  const auto [end, error] = std::from_chars(&block[slash + 1], block.data() + block.size(), bits);
  if (error != std::errc() || end != block.data() + block.size() || bits < 0 || bits > 32) {
    return false;
  }
  const uint64_t differs = ntohl(address.s_addr) ^ ntohl(network.s_addr);
  return differs >> (32 - bits) == 0;
}

// "example.org" and ".example.org" are the host and all below it; "*" is every host. Commas and
// blanks stand between them.
bool IsExempt(const std::string& host, std::string_view list) {
  while (!list.empty()) {
    const size_t end = std::min(list.find_first_of(", \t"), list.size());
    std::string one = LowerCase(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
    if (one == "*" || IsInBlock(host, one)) return true;
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
