#include "sources/web_testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/check.h"
#include "base/strings.h"

namespace graft {
namespace {

bool SendText(int connection, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = send(connection, text.data(), text.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// Reads on until `text` has `end`, or so many bytes.
bool ReadUntil(int connection, std::string* text, std::string_view end, size_t bytes) {
  char data[16384];
  while (end.empty() ? text->size() < bytes : text->find(end) == std::string::npos) {
    const ssize_t n = recv(connection, data, sizeof(data), 0);
    if (n <= 0) return false;
    text->append(data, static_cast<size_t>(n));
  }
  return true;
}

AskedOfWeb ParseAsked(const std::string& head) {
  AskedOfWeb asked;
  size_t at = head.find("\r\n");
  const std::string first = head.substr(0, at);
  const size_t blank = first.find(' ');
  asked.method = first.substr(0, blank);
  asked.target = first.substr(blank + 1, first.rfind(' ') - blank - 1);
  while (at + 2 < head.size()) {
    const size_t begin = at + 2;
    at = head.find("\r\n", begin);
    const std::string line = head.substr(begin, at - begin);
    const size_t colon = line.find(':');
    if (colon == std::string::npos) break;
    asked.headers[LowerCase(line.substr(0, colon))] = Trimmed(line.substr(colon + 1));
  }
  return asked;
}

}  // namespace

ScriptedWeb::ScriptedWeb(Handler handler) : handler_(std::move(handler)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), bytes) == 0);
  CHECK(listen(listener_, 64) == 0);
  CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

ScriptedWeb::~ScriptedWeb() {
  is_ending_ = true;
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  close(listener_);
  {
    std::lock_guard lock(mutex_);
    for (const int connection : connections_) shutdown(connection, SHUT_RDWR);
  }
  for (std::thread& thread : threads_) thread.join();
  for (const int connection : connections_) close(connection);
}

std::string ScriptedWeb::Url(const std::string& target) const {
  return "http://127.0.0.1:" + std::to_string(port_) + target;
}

std::vector<AskedOfWeb> ScriptedWeb::asked() const {
  std::lock_guard lock(mutex_);
  return asked_;
}

void ScriptedWeb::Accept() {
  while (!is_ending_) {
    const int connection = accept(listener_, nullptr, nullptr);
    if (connection < 0) continue;
    std::lock_guard lock(mutex_);
    connections_.push_back(connection);
    threads_.emplace_back([this, connection] { Serve(connection); });
  }
}

void ScriptedWeb::Serve(int connection) {
  std::string text;
  while (ReadUntil(connection, &text, "\r\n\r\n", 0)) {
    const size_t head_end = text.find("\r\n\r\n") + 4;
    AskedOfWeb asked = ParseAsked(text.substr(0, head_end - 2));
    const size_t length = std::strtoul(asked.headers["content-length"].c_str(), nullptr, 10);
    if (!ReadUntil(connection, &text, "", head_end + length)) break;
    asked.body = text.substr(head_end, length);
    text.erase(0, head_end + length);
    ScriptedReply reply;
    {
      std::lock_guard lock(mutex_);
      asked_.push_back(asked);
      reply = handler_(asked);
    }
    std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " X\r\n";
    for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
    head += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n\r\n";
    std::string_view body = reply.body;
    if (reply.cut_after >= 0) body = body.substr(0, static_cast<size_t>(reply.cut_after));
    if (asked.method == "HEAD") body = {};
    // In one piece: a second one would wait for the first one's acknowledgement.
    if (!SendText(connection, head + std::string(body))) break;
    if (body.size() < reply.body.size() && asked.method != "HEAD") break;
  }
  shutdown(connection, SHUT_RDWR);
}

ScriptedReply ScriptedWeb::Bytes(const AskedOfWeb& asked, const std::string& bytes) {
  const auto it = asked.headers.find("range");
  if (it == asked.headers.end()) return {.status = 200, .body = bytes};
  const std::string range = it->second.substr(it->second.find('=') + 1);
  const size_t begin = std::strtoul(range.c_str(), nullptr, 10);
  const size_t last = std::min(std::strtoul(range.substr(range.find('-') + 1).c_str(), nullptr, 10),
                               bytes.size() - 1);
  return {
      .status = 206,
      .headers = {{"Content-Range", "bytes " + std::to_string(begin) + "-" + std::to_string(last) +
                                        "/" + std::to_string(bytes.size())}},
      .body = bytes.substr(begin, last + 1 - begin)};
}

}  // namespace graft
