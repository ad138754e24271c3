#include "trace/http_post.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>

namespace graft {
namespace {

// A descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

bool WaitFor(int fd, int16_t events, std::chrono::milliseconds timeout) {
  pollfd waiting{.fd = fd, .events = events, .revents = 0};
  return ::poll(&waiting, 1, static_cast<int>(timeout.count())) == 1;
}

bool Connect(int fd, const addrinfo& address, std::chrono::milliseconds timeout) {
  if (::connect(fd, address.ai_addr, address.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS || !WaitFor(fd, POLLOUT, timeout)) return false;
  int error = 0;
  socklen_t bytes = sizeof(error);
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0;
}

bool SendAll(int fd, std::string_view data, std::chrono::milliseconds timeout) {
  while (!data.empty()) {
    if (!WaitFor(fd, POLLOUT, timeout)) return false;
    const ssize_t sent = ::send(fd, data.data(), data.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent > 0) data.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

// The number in "HTTP/1.1 200 OK"; 0: the answer ended before.
int ReceiveStatus(int fd, std::chrono::milliseconds timeout) {
  constexpr size_t kStatusAt = 9;
  constexpr size_t kStatusEnd = kStatusAt + 3;
  std::string head;
  while (head.size() < kStatusEnd) {
    char data[512];
    if (!WaitFor(fd, POLLIN, timeout)) return 0;
    const ssize_t received = ::recv(fd, data, sizeof(data), 0);
    if (received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR)) return 0;
    if (received > 0) head.append(data, static_cast<size_t>(received));
  }
  int status = 0;
  if (head.starts_with("HTTP/1.")) {
    std::from_chars(head.data() + kStatusAt, head.data() + kStatusEnd, status);
  }
  return status;
}

Result<int> PostTo(const addrinfo& address, const std::string& data,
                   std::chrono::milliseconds timeout) {
  const Descriptor fd(
      ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0 || !Connect(fd.get(), address, timeout)) {
    return UnavailableError("nobody listens there");
  }
  if (!SendAll(fd.get(), data, timeout)) return UnavailableError("the connection broke");
  const int status = ReceiveStatus(fd.get(), timeout);
  if (status == 0) return UnavailableError("no answer came");
  return status;
}

}  // namespace

Result<HttpTarget> ParseHttpTarget(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  const Status error = InvalidArgumentError("'" + url + "' is no http://HOST[:PORT][/PATH]");
  if (!url.starts_with(kScheme)) return error;
  const size_t path = std::min(url.find('/', kScheme.size()), url.size());
  std::string authority = url.substr(kScheme.size(), path - kScheme.size());
  HttpTarget target{.path = path < url.size() ? url.substr(path) : "/"};
  const size_t colon = authority.rfind(':');
  if (colon != std::string::npos && authority.find(']', colon) == std::string::npos) {
    const char* const end = authority.data() + authority.size();
    const auto [last, code] = std::from_chars(authority.data() + colon + 1, end, target.port);
    if (code != std::errc() || last != end || target.port == 0) return error;
    authority.resize(colon);
  }
  if (authority.starts_with('[') && authority.ends_with(']')) {
    authority = authority.substr(1, authority.size() - 2);
  }
  // What would end a header's line, or is not sent in one.
  for (const unsigned char c : authority + target.path) {
    if (c <= ' ' || c >= 0x7f) return error;
  }
  if (authority.empty() || authority.find('@') != std::string::npos) return error;
  target.host = authority;
  return target;
}

Result<int> PostJson(const HttpTarget& target, const std::string& body,
                     std::chrono::milliseconds timeout) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code =
      ::getaddrinfo(target.host.c_str(), std::to_string(target.port).c_str(), &hints, &found);
  if (code != 0) return UnavailableError(target.host + ": " + ::gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> addresses(found, &::freeaddrinfo);
  const bool is_ipv6 = target.host.find(':') != std::string::npos;
  const std::string host = is_ipv6 ? "[" + target.host + "]" : target.host;
  const std::string data = "POST " + target.path + " HTTP/1.1\r\nHost: " + host + ":" +
                           std::to_string(target.port) +
                           "\r\nContent-Type: application/json\r\nConnection: close\r\n"
                           "User-Agent: graft/" GRAFT_VERSION "\r\nContent-Length: " +
                           std::to_string(body.size()) + "\r\n\r\n" + body;
  Result<int> status = UnavailableError("no address");
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    status = PostTo(*address, data, timeout);
    if (status.ok()) return status;
  }
  return status;
}

}  // namespace graft
