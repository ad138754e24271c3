// Which addresses connections may go to. A source's name, or a redirect, could lead into the
// operator's own network: addresses that are not public are refused, unless the endpoint that the
// operator named has an address of the same kind. The check is made on the address that a
// connection really goes to, whatever names said before. Immutable; any thread.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "base/status.h"

namespace graft {

enum class AddressKind : uint8_t {
  kPublic,
  kLoopback,   // 127.0.0.0/8, ::1
  kPrivate,    // 10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7
  kLinkLocal,  // 169.254/16 (clouds' metadata among them), fe80::/10
  kOther,      // unspecified, multicast, reserved, documentation, tunnels: never the answer
};

// IPv4 addresses inside IPv6 ones (v4-mapped, v4-compatible, NAT64, 6to4) are what they hold.
AddressKind KindOfAddress(const sockaddr* address);
const char* AddressKindName(AddressKind kind);
// "127.0.0.1", "::1"; for messages.
std::string AddressText(const sockaddr* address);

class ReachableAddresses {
 public:
  // Public ones alone.
  ReachableAddresses() = default;
  explicit ReachableAddresses(std::set<AddressKind> kinds) : kinds_(std::move(kinds)) {}

  // And those of the kinds that `host`, the operator's own endpoint, had when this process first
  // asked: a name that leads elsewhere later is not followed there. Asks for its addresses, so it
  // may wait. A name without an address has no kinds, and is asked for again next time.
  using ResolveKinds = std::function<std::set<AddressKind>(const std::string& host)>;
  static ReachableAddresses Beside(const std::string& host, const ResolveKinds& resolve = {});

  // kPermissionDenied.
  Status Check(const sockaddr* address) const;

 private:
  std::set<AddressKind> kinds_;
};

}  // namespace graft
