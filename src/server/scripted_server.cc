// A server with a fake model that takes its answers from a file, for tests of clients that no small
// model can drive: {"chat_template": "...", "answers": ["...", ...]}, an answer for each request in
// turn. It prints "port N" among the lines of the log, and serves until its input ends.
#include <cstdio>
#include <iostream>
#include <iterator>

#include "base/json.h"
#include "server/server_testing.h"

int main(int argc, char** argv) {
  using namespace graft;  // NOLINT
  if (argc != 2) {
    std::fprintf(stderr, "scripted_server FILE\n");
    return 2;
  }
  const Json script = ParseJsonFile(argv[1]).value();
  const ChatTemplate chat_template =
      ChatTemplate::Parse(script["chat_template"].get<std::string>()).value();
  TestServer server(ServerOptions(), &chat_template);
  server.generator.set_answers(script["answers"].get<std::vector<std::string>>());
  std::printf("port %d\n", server.port());
  std::fflush(stdout);
  std::string rest((std::istreambuf_iterator<char>(std::cin)), {});
  return server.start_status.ok() ? 0 : 1;
}
