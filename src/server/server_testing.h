// A running server for tests, with fakes behind it. For tests only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "http/raw_client.h"
#include "openai/openai_testing.h"
#include "request/fake_catalog.h"
#include "server/server.h"

namespace graft {

// The beginning of a completion request's head. More headers and "\r\n" follow.
inline const std::string kPostCompletion =
    "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

// A server on a free port with fakes behind it.
class TestServer {
 public:
  explicit TestServer(ServerOptions options = {}, bool with_template = true,
                      std::function<FleetFigures()> fleet = {});
  // With a model that has this template, which must outlive the server; it also tells the form of
  // calls and of reasoning.
  TestServer(ServerOptions options, const ChatTemplate* chat_template,
             std::function<FleetFigures()> fleet = {});
  ~TestServer();

  Status start_status;
  FakeGenerator generator;
  FakeCatalog catalog;
  Metrics metrics;
  AtomicClock clock;
  Status ready;
  std::unique_ptr<HttpServer> server;

  uint16_t port() const { return server->port(); }
};

// Writes these bytes to a file in the test's temporary folder, and returns its path.
std::string WriteTempFile(const std::string& name, const std::string& bytes);

}  // namespace graft
