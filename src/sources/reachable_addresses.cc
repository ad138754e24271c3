#include "sources/reachable_addresses.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

namespace graft {
namespace {

struct Ipv4Block {
  uint32_t network;
  int bits;
  AddressKind kind;
};
// IANA's special-purpose registry.
constexpr Ipv4Block kIpv4Blocks[] = {
    {0x7F000000, 8, AddressKind::kLoopback},    // 127.0.0.0
    {0x0A000000, 8, AddressKind::kPrivate},     // 10.0.0.0
    {0xAC100000, 12, AddressKind::kPrivate},    // 172.16.0.0
    {0xC0A80000, 16, AddressKind::kPrivate},    // 192.168.0.0
    {0x64400000, 10, AddressKind::kPrivate},    // 100.64.0.0, carriers' NAT
    {0xA9FE0000, 16, AddressKind::kLinkLocal},  // 169.254.0.0
    {0xA83F8110, 32, AddressKind::kLinkLocal},  // 168.63.129.16, a cloud's own service to machines
    {0x00000000, 8, AddressKind::kOther},       // this network
    {0xC0000000, 24, AddressKind::kOther},      // 192.0.0.0
    {0xC0000200, 24, AddressKind::kOther},      // documentation
    {0xC6336400, 24, AddressKind::kOther},     {0xCB007100, 24, AddressKind::kOther},
    {0xC0586300, 24, AddressKind::kOther},  // 6to4 relays
    {0xC6120000, 15, AddressKind::kOther},  // benchmarks
    {0xE0000000, 3, AddressKind::kOther}};  // multicast and reserved

AddressKind KindOfIpv4(uint32_t address) {
  for (const Ipv4Block& block : kIpv4Blocks) {
    if ((address ^ block.network) >> (32 - block.bits) == 0) return block.kind;
  }
  return AddressKind::kPublic;
}

uint32_t Ipv4At(const std::array<uint8_t, 16>& bytes, size_t at) {
  return uint32_t{bytes[at]} << 24 | uint32_t{bytes[at + 1]} << 16 | uint32_t{bytes[at + 2]} << 8 |
         bytes[at + 3];
}

AddressKind KindOfIpv6(const std::array<uint8_t, 16>& bytes) {
  const auto is_zero = [&](size_t begin, size_t end) {
    return std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(begin),
                       bytes.begin() + static_cast<std::ptrdiff_t>(end),
                       [](uint8_t byte) { return byte == 0; });
  };
  if (is_zero(0, 15) && bytes[15] == 1) return AddressKind::kLoopback;
  if (is_zero(0, 16)) return AddressKind::kOther;
  const bool is_mapped = is_zero(0, 10) && bytes[10] == 0xFF && bytes[11] == 0xFF;
  if (is_mapped || is_zero(0, 12)) return KindOfIpv4(Ipv4At(bytes, 12));
  const bool is_nat64 = bytes[0] == 0 && bytes[1] == 0x64 && bytes[2] == 0xFF && bytes[3] == 0x9B;
  // 64:ff9b::/96. A network's own prefix below 64:ff9b:1:: may hold the address elsewhere.
  if (is_nat64 && is_zero(4, 12)) return KindOfIpv4(Ipv4At(bytes, 12));
  if (bytes[0] == 0x20 && bytes[1] == 0x02) return KindOfIpv4(Ipv4At(bytes, 2));  // 6to4
  if ((bytes[0] & 0xFE) == 0xFC) return AddressKind::kPrivate;
  if (bytes[0] == 0xFE && (bytes[1] & 0xC0) == 0x80) return AddressKind::kLinkLocal;
  // 2000::/3 is what is given out; Teredo and documentation lie in it.
  const bool is_global = (bytes[0] & 0xE0) == 0x20;
  const bool is_special =
      bytes[0] == 0x20 && bytes[1] == 0x01 &&
      ((bytes[2] == 0 && bytes[3] < 2) || (bytes[2] == 0x0D && bytes[3] == 0xB8));
  return is_global && !is_special ? AddressKind::kPublic : AddressKind::kOther;
}

// The kinds of all addresses that the host has now.
std::set<AddressKind> KindsOfHost(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  std::set<AddressKind> kinds;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    const AddressKind kind = KindOfAddress(one->ai_addr);
    if (kind != AddressKind::kOther) kinds.insert(kind);
  }
  return kinds;
}

}  // namespace

AddressKind KindOfAddress(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    sockaddr_in ipv4;
    std::memcpy(&ipv4, address, sizeof(ipv4));
    return KindOfIpv4(ntohl(ipv4.sin_addr.s_addr));
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 ipv6;
    std::memcpy(&ipv6, address, sizeof(ipv6));
    std::array<uint8_t, 16> bytes;
    std::memcpy(bytes.data(), &ipv6.sin6_addr, bytes.size());
    return KindOfIpv6(bytes);
  }
  return AddressKind::kOther;
}

const char* AddressKindName(AddressKind kind) {
  switch (kind) {
    case AddressKind::kPublic:
      return "public";
    case AddressKind::kLoopback:
      return "loopback";
    case AddressKind::kPrivate:
      return "private";
    case AddressKind::kLinkLocal:
      return "link-local";
    case AddressKind::kOther:
      break;
  }
  return "special";
}

std::string AddressText(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = "an unknown address";
  if (address->sa_family == AF_INET) {
    sockaddr_in ipv4;
    std::memcpy(&ipv4, address, sizeof(ipv4));
    inet_ntop(AF_INET, &ipv4.sin_addr, text, sizeof(text));
  } else if (address->sa_family == AF_INET6) {
    sockaddr_in6 ipv6;
    std::memcpy(&ipv6, address, sizeof(ipv6));
    inet_ntop(AF_INET6, &ipv6.sin6_addr, text, sizeof(text));
  }
  return text;
}

ReachableAddresses ReachableAddresses::Beside(const std::string& host,
                                              const ResolveKinds& resolve) {
  static std::mutex mutex;
  static std::map<std::string, std::set<AddressKind>> known;
  {
    std::lock_guard lock(mutex);
    const auto it = known.find(host);
    if (it != known.end()) return ReachableAddresses(it->second);
  }
  std::set<AddressKind> kinds = resolve ? resolve(host) : KindsOfHost(host);
  if (kinds.empty()) return {};
  std::lock_guard lock(mutex);
  return ReachableAddresses(known.try_emplace(host, std::move(kinds)).first->second);
}

Status ReachableAddresses::Check(const sockaddr* address) const {
  const AddressKind kind = KindOfAddress(address);
  if (kind == AddressKind::kPublic || kinds_.contains(kind)) return OkStatus();
  return PermissionDeniedError("refused to connect to the " + std::string(AddressKindName(kind)) +
                               " address " + AddressText(address) +
                               ", which is not of the kind that the configured endpoint has");
}

}  // namespace graft
