#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/json.h"
#include "profile/load_generator.h"

namespace graft {
namespace {

// A blocking socket to this machine. A benchmark's client: it understands what our server sends.
class Connection {
 public:
  explicit Connection(uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int one = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Connection() { close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool Send(std::string_view bytes) {
    while (connected_ && !bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return connected_;
  }
  // The next line without its end; false at the end of the connection.
  bool ReadLine(std::string* line) {
    size_t end;
    while ((end = buffer_.find('\n')) == std::string::npos) {
      char bytes[4096];
      const ssize_t received = recv(socket_, bytes, sizeof(bytes), 0);
      if (received <= 0) return false;
      buffer_.append(bytes, static_cast<size_t>(received));
    }
    *line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    if (!line->empty() && line->back() == '\r') line->pop_back();
    return true;
  }

 private:
  const int socket_;
  bool connected_ = false;
  std::string buffer_;
};

std::string MakeHttpRequest(const LoadRequest& request, const std::string& base_model) {
  const Json body = {{"model", request.model.empty() ? base_model : request.model},
                     {"prompt", request.prompt_tokens},
                     {"max_tokens", request.output_tokens},
                     {"temperature", 0},
                     {"ignore_eos", true},
                     {"stream", true},
                     {"stream_options", {{"include_usage", true}}}};
  const std::string text = body.dump();
  return "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
         "Content-Type: application/json\r\nContent-Length: " +
         std::to_string(text.size()) + "\r\n\r\n" + text;
}

constexpr std::string_view kUsageKey = "\"completion_tokens\":";

Status ReadReply(Connection& connection, const std::function<void()>& on_token) {
  std::string line;
  if (!connection.ReadLine(&line)) return UnavailableError("no reply");
  const bool accepted = line.find(" 200 ") != std::string::npos;
  const std::string status_line = line;
  std::string last;
  int num_tokens = 0;
  int num_seen = 0;
  while (connection.ReadLine(&line)) {
    if (line.empty()) continue;
    last = line;
    if (line.rfind("data: ", 0) != 0) continue;  // headers, chunk sizes
    if (line == "data: [DONE]") {
      // A chunk is some text, not a token: the usage has the count, and the mean needs only the
      // ends.
      for (; num_seen < num_tokens; ++num_seen) on_token();
      return OkStatus();
    }
    if (line.find("\"error\"") != std::string::npos) return InternalError(line);
    const size_t usage = line.find(kUsageKey);
    if (usage != std::string::npos) {
      num_tokens = std::atoi(line.c_str() + usage + kUsageKey.size());
    } else if (num_seen == 0) {
      ++num_seen;
      on_token();
    }
  }
  if (!accepted) {
    const std::string refused = status_line + ": " + last;
    const bool is_for_now = status_line.find(" 503 ") != std::string::npos;
    return is_for_now ? UnavailableError(refused) : InternalError(refused);
  }
  return UnavailableError("the stream ended early");
}

}  // namespace

RunRequest ViaHttp(uint16_t port, const std::string& base_model) {
  return [port, base_model](const LoadRequest& request, const std::function<void()>& on_token) {
    Connection connection(port);
    if (!connection.Send(MakeHttpRequest(request, base_model))) {
      return UnavailableError("cannot reach 127.0.0.1:" + std::to_string(port));
    }
    return ReadReply(connection, on_token);
  };
}

}  // namespace graft
