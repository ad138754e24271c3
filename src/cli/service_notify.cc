#include "cli/service_notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "base/log.h"

namespace graft {

void NotifyService(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || *path == '\0') return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t bytes = std::strlen(path);
  if ((*path != '/' && *path != '@') || bytes >= sizeof(address.sun_path)) {
    LOG_WARN("NOTIFY_SOCKET={} is no place to send to", path);
    return;
  }
  std::memcpy(address.sun_path, path, bytes);
  if (*path == '@') address.sun_path[0] = '\0';  // a name in no folder
  const auto address_bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + bytes);
  const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const ssize_t sent = ::sendto(descriptor, state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                                reinterpret_cast<const sockaddr*>(&address), address_bytes);
  if (sent < 0) LOG_WARN("telling {}: {}", path, std::strerror(errno));
  if (descriptor >= 0) ::close(descriptor);
}

std::string ReloadingState() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto now_us = static_cast<long long>(now.tv_sec) * 1'000'000 + now.tv_nsec / 1000;
  return "RELOADING=1\nMONOTONIC_USEC=" + std::to_string(now_us);
}

}  // namespace graft
