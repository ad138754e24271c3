#include "trace/fake_collector.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>

#include "base/check.h"

namespace graft {
namespace {

constexpr std::chrono::seconds kCollectorPatience(60);

// A whole message, head and body; "" where the connection ended before.
std::string ReceiveMessage(int fd) {
  constexpr std::string_view kLength = "Content-Length: ";
  constexpr size_t kDigitsMax = 20;
  std::string message;
  while (true) {
    const size_t head = message.find("\r\n\r\n");
    if (head != std::string::npos) {
      const size_t length = message.find(kLength);
      if (length == std::string::npos) return "";
      if (message.size() - head - 4 >=
          std::stoul(message.substr(length + kLength.size(), kDigitsMax))) {
        return message;
      }
    }
    char data[4096];
    const ssize_t received = ::recv(fd, data, sizeof(data), 0);
    if (received <= 0) return "";
    message.append(data, static_cast<size_t>(received));
  }
}

}  // namespace

FakeCollector::FakeCollector() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  CHECK(::bind(fd_, reinterpret_cast<sockaddr*>(&address), bytes) == 0);
  CHECK(::listen(fd_, 16) == 0);
  CHECK(::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Loop(); });
}

FakeCollector::~FakeCollector() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    hold_ = false;
  }
  changed_.notify_all();
  ::shutdown(fd_, SHUT_RDWR);
  thread_.join();
  ::close(fd_);
}

void FakeCollector::set_status(int status) {
  std::lock_guard lock(mutex_);
  status_ = status;
}

void FakeCollector::set_hold(bool hold) {
  {
    std::lock_guard lock(mutex_);
    hold_ = hold;
  }
  changed_.notify_all();
}

std::vector<std::string> FakeCollector::WaitForMessages(size_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, kCollectorPatience, [&] { return messages_.size() >= count; });
  return messages_;
}

void FakeCollector::Loop() {
  while (true) {
    const int fd = ::accept(fd_, nullptr, nullptr);
    if (fd < 0) return;
    std::string message = ReceiveMessage(fd);
    std::unique_lock lock(mutex_);
    if (!message.empty()) messages_.push_back(std::move(message));
    changed_.notify_all();
    changed_.wait(lock, [this] { return !hold_; });
    const std::string answer = status_ == 0 ? ""
                                            : "HTTP/1.1 " + std::to_string(status_) +
                                                  " Something\r\nContent-Length: 2\r\n\r\n{}";
    lock.unlock();
    (void)::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    ::close(fd);
  }
}

}  // namespace graft
