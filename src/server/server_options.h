// How the HTTP server is set up: addresses, TLS, keys and limits. Plain data; the defaults suit a
// machine that faces clients directly.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "http/http_parser.h"
#include "openai/openai_request.h"
#include "openai/responses/response_store.h"

namespace graft {

// An eighth of the machine's threads, for the engine has the rest; 2 to 8.
constexpr int32_t DefaultHttpThreads(unsigned int num_cpus) {
  return std::clamp(static_cast<int32_t>(num_cpus / 8), 2, 8);
}

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address or a name; "0.0.0.0" or "::" for all
  uint16_t port = 8000;            // 0: any free one
  // Threads for sockets, and as many workers for long bodies; 1 to 256.
  int32_t threads_max = DefaultHttpThreads(std::thread::hardware_concurrency());

  std::string tls_cert_file;  // PEM chain; "": no TLS
  std::string tls_key_file;   // PEM

  std::string api_keys_file;  // "": no key needed
  std::string api_keys_json;  // the same as text, in place of a file
  std::string admin_key;      // may load adapters; "": only keys with "admin" may
  // Names that a Host header may have, "*" for any; see ServedHosts for none.
  std::vector<std::string> allowed_hosts;
  bool metrics_need_admin = false;  // /metrics names adapters, which may be confidential
  std::string cors_allow_origin;    // "*" or one origin; "": browsers' scripts are kept out

  bool logs_requests = true;  // a line for each

  RequestLimits request_limits;
  HttpParserLimits parser_limits;
  // Bytes of all requests' bodies, the trees made of them, and answers that wait to be read.
  int64_t body_bytes_total_max = int64_t{512} << 20;
  ResponseStoreLimits responses;
  Pooling pooling = Pooling::kLast;  // what embeddings are made of
  int32_t connections_max = 8192;
  // A longer body is parsed and tokenised by a worker, so that it holds up no other connection.
  int64_t inline_body_bytes_max = 16 << 10;

  std::chrono::milliseconds handshake_timeout{10'000};
  std::chrono::milliseconds idle_timeout{75'000};        // between requests
  std::chrono::milliseconds head_timeout{10'000};        // from a request's first byte to its body
  std::chrono::milliseconds body_timeout{60'000};        // the whole body
  std::chrono::milliseconds write_timeout{30'000};       // without a byte that the client takes
  std::chrono::milliseconds request_timeout{3'600'000};  // from a body's end to the answer's
  // Past a shutdown's deadline: until work that was told to stop is left behind.
  std::chrono::milliseconds left_behind_timeout{10'000};
  // A stream without news gets a comment this often: proxies keep it open, and dead peers show.
  std::chrono::milliseconds heartbeat{15'000};
};

}  // namespace graft
