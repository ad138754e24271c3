#include "http/raw_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <utility>

namespace graft {
namespace {

// Only a test that fails waits so long.
constexpr std::chrono::seconds kPatience{120};

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

Json RawResponse::json() const {
  Result<Json> parsed = ParseJson(body);
  EXPECT_TRUE(parsed.ok()) << body;
  return parsed.ok() ? parsed.value() : Json();
}

std::vector<std::string> RawResponse::events() const {
  std::vector<std::string> events;
  size_t begin = 0;
  for (size_t end; (end = body.find("\n\n", begin)) != std::string::npos; begin = end + 2) {
    std::string event = body.substr(begin, end - begin);
    if (event.starts_with(":")) continue;
    // Where events have names, their data repeat them.
    if (event.starts_with("event: ")) event.erase(0, event.find('\n') + 1);
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    events.push_back(event.substr(6));
  }
  EXPECT_EQ(begin, body.size()) << "the stream ends inside an event";
  return events;
}

RawClient::RawClient(uint16_t port, bool tls, bool is_narrow) {
  fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
  const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (is_narrow) {  // a sender's buffer grows with the size of its segments
    const int segment_bytes = 536;
    setsockopt(fd_, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, sizeof(segment_bytes));
    SetReceiveBuffer(4096);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  if (!tls || !connected_) return;
  tls_context_ = SSL_CTX_new(TLS_client_method());
  tls_ = SSL_new(tls_context_);
  SSL_set_fd(tls_, fd_);
  connected_ = SSL_connect(tls_) == 1;
}

RawClient::~RawClient() {
  if (tls_ != nullptr) {
    SSL_shutdown(tls_);
    SSL_free(tls_);
  }
  if (tls_context_ != nullptr) SSL_CTX_free(tls_context_);
  if (fd_ >= 0) ::close(fd_);
}

void RawClient::Send(std::string_view data) {
  while (!data.empty()) {
    const ssize_t sent = tls_ != nullptr
                             ? SSL_write(tls_, data.data(), static_cast<int>(data.size()))
                             : ::send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // the server has closed: what it said shows in Receive
    data.remove_prefix(static_cast<size_t>(sent));
  }
}

int RawClient::Read(char* data, int bytes) {
  if (tls_ != nullptr) return SSL_read(tls_, data, bytes);
  return static_cast<int>(::recv(fd_, data, static_cast<size_t>(bytes), 0));
}

std::string RawClient::ReceiveSome() {
  if (input_.empty()) ReadMore();
  return std::exchange(input_, {});
}

bool RawClient::ReadMore() {
  char data[16384];
  const int bytes = Read(data, sizeof(data));
  if (bytes <= 0) return false;
  input_.append(data, static_cast<size_t>(bytes));
  return true;
}

bool RawClient::ReadUntil(std::string_view mark) {
  while (input_.find(mark) == std::string::npos) {
    if (!ReadMore()) return false;
  }
  return true;
}

bool RawClient::ReadBytes(size_t bytes) {
  while (input_.size() < bytes) {
    if (!ReadMore()) return false;
  }
  return true;
}

RawResponse RawClient::Receive(bool head_only) {
  RawResponse response;
  const auto take = [this](size_t bytes) {
    std::string part = input_.substr(0, bytes);
    input_.erase(0, bytes);
    return part;
  };
  if (!ReadUntil("\r\n\r\n")) return response;
  std::string head = take(input_.find("\r\n\r\n") + 4);
  response.status = std::atoi(head.substr(head.find(' ') + 1, 3).c_str());
  head.erase(0, head.find("\r\n") + 2);
  for (size_t end; (end = head.find("\r\n")) != 0 && end != std::string::npos;) {
    const size_t colon = head.find(": ");
    response.headers[Lower(head.substr(0, colon))] = head.substr(colon + 2, end - colon - 2);
    head.erase(0, end + 2);
  }
  response.complete = head_only || response.status == 204 || response.status == 100;
  if (response.complete) return response;
  if (response.headers.count("content-length") != 0) {
    const size_t bytes = std::stoul(response.headers["content-length"]);
    response.complete = ReadBytes(bytes);
    response.body = take(bytes);
  } else if (response.headers.count("transfer-encoding") != 0) {
    while (ReadUntil("\r\n")) {
      const std::string size = take(input_.find("\r\n") + 2);
      const size_t bytes = std::stoul(size, nullptr, 16);
      if (!ReadBytes(bytes + 2)) break;
      response.body += take(bytes);
      take(2);
      response.complete = bytes == 0;
      if (response.complete) break;
    }
  } else {
    for (std::string more; !(more = ReceiveSome()).empty();) response.body += more;
    response.complete = true;
  }
  return response;
}

bool RawClient::WaitForEnd() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  char data[16384];
  while (std::chrono::steady_clock::now() < deadline) {
    const int bytes = Read(data, sizeof(data));
    if (bytes > 0) continue;
    return bytes == 0 || errno == ECONNRESET;
  }
  return false;
}

void RawClient::HalfClose() { ::shutdown(fd_, SHUT_WR); }

void RawClient::Reset() {
  const linger now{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  ::close(fd_);
  fd_ = -1;
}

void RawClient::SetReceiveBuffer(int bytes) {
  setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

RawResponse RawClient::Get(const std::string& path, const std::string& headers) {
  Send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n");
  return Receive();
}

RawResponse RawClient::Post(const std::string& path, const std::string& body,
                            const std::string& headers) {
  Send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
       "Content-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body);
  return Receive();
}

}  // namespace graft
