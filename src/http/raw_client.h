// An HTTP client that sends exactly what it is told to. For tests only.
#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace graft {

struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;                            // chunks put together
  bool complete = false;                       // the body came to its end
  Json json() const;
  // The data of a stream's events.
  std::vector<std::string> events() const;
};

// A socket that sends exactly what it is told to. One thread.
class RawClient {
 public:
  // `is_narrow`: a hundred kilobytes that it does not read hold their sender up; else megabytes do.
  explicit RawClient(uint16_t port, bool tls = false, bool is_narrow = false);
  ~RawClient();
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }
  void Send(std::string_view data);
  // Receives one whole response and keeps what follows it. `head_only`: its head alone, which is
  // all of a response to HEAD.
  RawResponse Receive(bool head_only = false);
  // Receives some more bytes, unparsed.
  std::string ReceiveSome();
  // Whether the server ends the connection in time. What it sends before that is dropped.
  bool WaitForEnd();
  void HalfClose();
  // Ends the connection with a reset instead of an orderly close.
  void Reset();
  void SetReceiveBuffer(int bytes);

  RawResponse Get(const std::string& path, const std::string& headers = "");
  RawResponse Post(const std::string& path, const std::string& body,
                   const std::string& headers = "");

 private:
  bool ReadUntil(std::string_view mark);
  bool ReadBytes(size_t bytes);
  bool ReadMore();
  int Read(char* data, int bytes);

  int fd_ = -1;
  bool connected_ = false;
  SSL_CTX* tls_context_ = nullptr;
  SSL* tls_ = nullptr;
  std::string input_;
};

}  // namespace graft
