// How the HTTP server is set up: addresses, TLS, keys and limits. Plain data; the defaults suit a
// machine that faces clients directly.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "server/http_parser.h"
#include "server/openai_request.h"

namespace graft {

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address or a name; "0.0.0.0" or "::" for all
  uint16_t port = 8000;            // 0: any free one
  int32_t threads_max = 2;         // for sockets, and as many workers for long bodies

  std::string tls_cert_file;  // PEM chain; "": no TLS
  std::string tls_key_file;   // PEM

  std::string api_keys_file;        // "": no key needed
  std::string admin_key;            // may load adapters; "": only keys with "admin" may
  bool metrics_need_admin = false;  // /metrics names adapters, and may be nobody else's business
  std::string cors_allow_origin;    // "*" or one origin; "": browsers' scripts are kept out

  RequestLimits request_limits;
  HttpParserLimits parser_limits;
  int32_t connections_max = 8192;
  // A body longer than this is parsed and tokenised by a worker, so that it holds up nobody else.
  int64_t inline_body_bytes_max = 16 << 10;

  std::chrono::milliseconds handshake_timeout{10'000};
  std::chrono::milliseconds idle_timeout{75'000};        // between requests
  std::chrono::milliseconds head_timeout{10'000};        // from a request's first byte to its body
  std::chrono::milliseconds body_timeout{60'000};        // the whole body
  std::chrono::milliseconds write_timeout{30'000};       // a client that does not read is dropped
  std::chrono::milliseconds request_timeout{3'600'000};  // from a body's end to the answer's
  // A stream without news gets a comment this often: proxies keep it open, and dead peers show.
  std::chrono::milliseconds heartbeat{15'000};
};

}  // namespace graft
