#include "server/server_testing.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <utility>

namespace graft {

TestServer::TestServer(ServerOptions options, bool with_template,
                       std::function<FleetFigures()> fleet)
    : TestServer(std::move(options), with_template ? &DemoChatTemplate() : nullptr,
                 std::move(fleet)) {}

TestServer::TestServer(ServerOptions options, const ChatTemplate* chat_template,
                       std::function<FleetFigures()> fleet) {
  options.port = 0;
  const std::string source = chat_template == nullptr ? "" : chat_template->tool_source();
  server =
      std::make_unique<HttpServer>(ApiContext{.generator = generator,
                                              .catalog = catalog,
                                              .tokenizer = DemoTokenizer(),
                                              .chat_template = chat_template,
                                              .tool_format = DetectToolFormat(source),
                                              .reasoning_format = DetectReasoningFormat(source),
                                              .metrics = metrics,
                                              .clock = clock,
                                              .base_model = "demo",
                                              .adapters_dir = "/srv/adapters",
                                              .ready = [this] { return ready; },
                                              .fleet = std::move(fleet)},
                                   std::move(options));
  start_status = server->Start();
}

TestServer::~TestServer() { server.reset(); }

std::string WriteTempFile(const std::string& name, const std::string& bytes) {
  const std::string path = testing::TempDir() + "graft_" + std::to_string(getpid()) + "_" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

}  // namespace graft
