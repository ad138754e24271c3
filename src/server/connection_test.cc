// One connection by itself; the test runs its workers.
#include "server/connection.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "openai/responses/response_plan.h"
#include "server/server_testing.h"

namespace graft {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

class ConnectionTest : public ::testing::Test {
 protected:
  ConnectionTest() {
    state_.run_on_worker = [this](uint64_t /*owner*/, int64_t bytes,
                                  const std::function<void()>& work) {
      queued_.push_back(bytes);
      work();
    };
  }

  // Calls `begin` with a client before the connection reads from it, and `talk` then; waits until
  // the connection has ended.
  void Serve(const std::function<void(RawClient&)>& begin,
             const std::function<void(RawClient&)>& talk) {
    asio::io_context io;
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    auto client = std::make_unique<RawClient>(acceptor.local_endpoint().port());
    begin(*client);
    std::make_shared<Connection>(state_, asio::make_strand(io),
                                 MakeSocket(acceptor.accept(), nullptr))
        ->Start();
    std::thread thread([&io] { io.run(); });
    talk(*client);
    client.reset();
    thread.join();
  }

  FakeGenerator generator_;
  FakeCatalog catalog_;
  Metrics metrics_;
  AtomicClock clock_;
  ServerState state_{DemoContext(generator_, catalog_, metrics_, clock_), ServerOptions()};
  std::vector<int64_t> queued_;  // bytes of the work that was given to workers
};

// However short a turn is, its conversation is read and tokenised again.
TEST_F(ConnectionTest, ATurnIsQueuedByItsBodyAndTheStoredConversation) {
  std::string body;
  const auto talk = [&](RawClient& client) {
    const std::string first =
        R"({"model":"demo","max_output_tokens":3,"input":")" + std::string(500, 'x') + "\"}";
    const RawResponse answer = client.Post("/v1/responses", first);
    ASSERT_EQ(answer.status, 200) << answer.body;
    body = R"({"model":"demo","max_output_tokens":3,"input":"y","store":false,)"
           R"("previous_response_id":")" +
           answer.json()["id"].get<std::string>() + "\"}";
    EXPECT_EQ(client.Post("/v1/responses", body).status, 200);
  };
  Serve([](RawClient&) {}, talk);
  const int64_t stored = StoredBytes(&state_.responses, "", RequestLimits(), body);
  EXPECT_GT(stored, 500);
  const auto bytes = static_cast<int64_t>(body.size());
  ASSERT_EQ(queued_.size(), 3u) << "the first turn, a look at what is stored, and the second turn";
  EXPECT_EQ(queued_[1], bytes);
  EXPECT_EQ(queued_[2], bytes + stored);
}

// As `nc -N` and some proxies do.
TEST_F(ConnectionTest, AShortRequestWhoseClientSendsNoMoreIsAnswered) {
  const auto ask = [](RawClient& client) {
    const std::string body = R"({"model":"demo","prompt":"hello"})";
    client.Send(
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Content-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body);
    client.HalfClose();
  };
  Serve(ask, [](RawClient& client) { EXPECT_EQ(client.Receive().status, 200); });
}

}  // namespace
}  // namespace graft
