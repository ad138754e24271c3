// Bytes of a connection to one HttpRequest, in two stages: the head, so that a caller can refuse
// before a byte of the body is kept, and the body. Wraps Beast's parser. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "http/http_message.h"

namespace graft {

struct HttpParserLimits {
  uint32_t head_bytes_max = 32 << 10;  // request line and headers
  uint64_t body_bytes_max = 16 << 20;
};

class HttpParser {
 public:
  explicit HttpParser(const HttpParserLimits& limits);
  ~HttpParser();
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  // Takes bytes from the front of *input, at most up to the end of this request. The rest belongs
  // to the next request, or waits for more bytes. Stops after the head; the next call goes on with
  // the body. After an error it takes nothing.
  void Feed(std::string* input);

  bool started() const { return started_; }  // some byte of a request has come
  bool head_done() const;
  bool done() const;
  const std::optional<ApiError>& error() const { return error_; }
  // Bytes of the body that have come. What its head announces takes no memory.
  int64_t body_bytes() const;
  // So many it will have by its head; without a Content-Length those that have come.
  int64_t body_bytes_announced() const;

  // Valid once head_done(); the body once done().
  HttpRequest& request() { return request_; }

 private:
  struct State;

  void TakeHead();
  // Refuses heads with bounds that another program might read differently.
  void CheckFraming();
  void FailSyntax(const std::string& message);

  const HttpParserLimits limits_;
  std::unique_ptr<State> state_;
  HttpRequest request_;
  bool started_ = false;
  bool head_taken_ = false;
  std::optional<ApiError> error_;
};

}  // namespace graft
