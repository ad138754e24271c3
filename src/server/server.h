// The HTTP front end: OpenAI's endpoints over HTTP/1.1, with or without TLS. Owns its threads;
// every public method may be called from any one thread that is not one of them, Reload from any.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "http/check_address.h"
#include "keys/api_keys.h"
#include "openai/api_context.h"
#include "server/server_options.h"

namespace graft {

// Whether the files of keys and certificates can be used; asked early for the same reason.
Status CheckFiles(const ServerOptions& options);

class HttpServer {
 public:
  // `context`'s references must outlive the server.
  HttpServer(ApiContext context, ServerOptions options);
  // Shuts down at once if Shutdown was not called, and waits for work that it left behind.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Reads keys and certificates, binds, and starts the threads. The error says what to change.
  Status Start();

  // Reads the keys file and the certificate anew, between Start and Shutdown. Requests and
  // connections that there are go on as they began. With an error what was in force stays so.
  Status Reload();

  // Those in force, which may be replaced while it serves.
  ApiKeys& keys();

  // The port on which the server listens, after Start.
  uint16_t port() const;

  // Ends the server gracefully. It takes no new connections, turns /ready to 503, refuses new
  // generation requests, and lets those in flight finish until `deadline` from now. Then it tells
  // the rest that the server ends, closes everything and joins the threads. Blocks until then.
  // Returns false if work for a request, or an adapter's load, still runs although it was told to
  // stop and was waited for (ServerOptions::left_behind_timeout). Its threads still use this
  // object, so the process must exit without destroying it.
  [[nodiscard]] bool Shutdown(std::chrono::milliseconds deadline);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace graft
