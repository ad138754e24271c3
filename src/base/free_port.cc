#include "base/free_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <random>
#include <string>

#include "base/fault.h"

namespace graft {
namespace {

constexpr int kFirstPort = 10240;
constexpr int kEndPort =
    32768;  // where Linux begins with outgoing connections unless told otherwise
constexpr int kTries = 200;

bool CanListen(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool can = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return can;
}

// Binds a name without a file, which the kernel frees when this process ends: its descriptor, -1
// where another process holds it.
int Reserve(int port) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "graft-port-" + std::to_string(port);
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

Result<int> FindFreePort() {
  std::random_device random;
  std::uniform_int_distribution<int> ports(kFirstPort, kEndPort - 1);
  for (int i = 0; i < kTries; ++i) {
    const int port = ports(random);
    const int name = Reserve(port);
    if (name < 0) continue;
    if (CanListen(port)) return port;
    close(name);
  }
  return SystemError(errno, "no free port between " + std::to_string(kFirstPort) + " and " +
                                std::to_string(kEndPort - 1));
}

}  // namespace graft
