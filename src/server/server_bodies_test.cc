// A real server: what it refuses before or while it reads a body, and which hosts it answers to.
#include <gtest/gtest.h>

#include "server/server_testing.h"

namespace graft {
namespace {

std::string ErrorCode(const RawResponse& response) {
  return response.json()["error"]["code"].get<std::string>();
}

TEST(ServerBodiesTest, BodiesThatNobodyAskedForAreNotWaitedFor) {
  TestServer test;
  const std::string announced = "Host: localhost\r\nContent-Length: 16000000\r\n\r\n{";
  for (const std::string path : {"/health", "/ready", "/metrics", "/v1/models"}) {
    RawClient client(test.port());
    client.Send("GET " + path + " HTTP/1.1\r\n" + announced);
    const RawResponse response = client.Receive();
    EXPECT_EQ(response.status, 200) << path;
    EXPECT_EQ(response.headers.at("connection"), "close") << path;
    EXPECT_TRUE(client.WaitForEnd());
  }
  RawClient head(test.port());
  head.Send("HEAD /health HTTP/1.1\r\n" + announced);
  EXPECT_EQ(head.Receive(/*head_only=*/true).status, 200);
  EXPECT_TRUE(head.WaitForEnd());
  // A body that has already arrived is skipped, and the connection goes on.
  RawClient small(test.port());
  small.Send("GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_EQ(small.Receive().status, 200);
  EXPECT_EQ(small.Get("/health").status, 200);
}

TEST(ServerBodiesTest, AKeyOverItsLimitSendsNoBody) {
  ServerOptions options;
  options.api_keys_file =
      WriteTempFile("body_keys.json",
                    R"([{"key":"k","tenant":"t","adapters":["*"],"requests_concurrent_max":1}])");
  TestServer test(options);
  const std::string head =
      kPostCompletion + "Authorization: Bearer k\r\nContent-Length: 5000000\r\n";
  auto first = std::make_unique<RawClient>(test.port());
  first->Send(head + "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(first->Receive().status, 100);
  RawClient second(test.port());
  second.Send(head + "\r\n{");
  EXPECT_EQ(second.Receive().status, 429);
  EXPECT_TRUE(second.WaitForEnd());
  // A client that leaves before the end of its body gives its place back.
  first.reset();
  int status = 429;
  for (int i = 0; i < 10000 && status == 429; ++i) {
    RawClient third(test.port());
    status = third
                 .Post("/v1/completions", R"({"model":"demo","prompt":"x","max_tokens":1})",
                       "Authorization: Bearer k\r\n")
                 .status;
  }
  EXPECT_EQ(status, 200);
}

TEST(ServerBodiesTest, AllBodiesTogetherHaveALimit) {
  ServerOptions options;
  options.body_bytes_total_max = 1 << 20;
  TestServer test(options);
  const std::string part(700'000, ' ');
  const std::string head = kPostCompletion + "Content-Length: 700001\r\n\r\n";
  RawClient first(test.port());
  first.Send(head + part);
  RawClient other(test.port());
  const auto is_held = [&](const std::string& bytes) {
    const std::string line = "\ngraft_http_body_bytes " + bytes + "\n";
    for (int i = 0; i < 10000; ++i) {
      if (other.Get("/metrics").body.find(line) != std::string::npos) return true;
    }
    return false;
  };
  ASSERT_TRUE(is_held("700000"));
  RawClient second(test.port());
  second.Send(head + part);
  const RawResponse refused = second.Receive();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(ErrorCode(refused), "overloaded");
  EXPECT_EQ(refused.headers.at("retry-after"), "1") << "no time has passed";
  EXPECT_TRUE(second.WaitForEnd());
  test.clock.AdvanceSeconds(9);
  RawClient later(test.port());
  later.Send(head + part);
  EXPECT_EQ(later.Receive().headers.at("retry-after"), "8") << "as long again, what is past less";
  EXPECT_EQ(other.Post("/v1/completions", R"({"model":"demo","prompt":"x"})").status, 200)
      << "small bodies never need it";
  first.Send(" ");
  EXPECT_EQ(first.Receive().status, 400) << "spaces are no JSON";
  EXPECT_TRUE(is_held("0"));
  RawClient third(test.port());
  third.Send(head + part + " ");
  EXPECT_EQ(third.Receive().status, 400);
}

TEST(ServerBodiesTest, ABodyOfUnclearLengthEndsTheConnection) {
  TestServer test;
  for (const char* coding : {"xchunked", "gzip", "identity", "chunked, identity", ""}) {
    RawClient client(test.port());
    client.Send(kPostCompletion + "Transfer-Encoding: " + coding +
                "\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const RawResponse response = client.Receive();
    EXPECT_EQ(response.status, 400) << coding;
    EXPECT_EQ(ErrorCode(response), "bad_http") << coding;
    EXPECT_EQ(client.Receive().status, 0) << "what followed was no request: " << coding;
  }
}

TEST(ServerBodiesTest, ExpectIsReadInAnyCase) {
  TestServer test;
  RawClient client(test.port());
  const std::string body = R"({"model":"demo","prompt":"x","max_tokens":1})";
  client.Send(kPostCompletion + "Expect: 100-Continue\r\nContent-Length: " +
              std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_EQ(client.Receive().status, 100);
  client.Send(body);
  EXPECT_EQ(client.Receive().status, 200);
  client.Send(kPostCompletion + "Expect: a miracle\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(client.Receive().status, 417);
}

TEST(ServerBodiesTest, ABodyNeedsItsType) {
  TestServer test;
  const std::string body = R"({"model":"demo","prompt":"x","max_tokens":1})";
  const std::string length = "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  const std::pair<const char*, int> cases[] = {
      {"", 415},
      {"Content-Type: application/x-www-form-urlencoded\r\n", 415},  // what curl -d sends
      {"Content-Type: text/plain\r\n", 415},
      {"Content-Type: Application/JSON; charset=utf-8\r\n", 200},
  };
  for (const auto& [type, status] : cases) {
    RawClient client(test.port());
    client.Send(std::string("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n") + type +
                length + body);
    const RawResponse response = client.Receive();
    EXPECT_EQ(response.status, status) << type;
    if (status == 415) {
      EXPECT_NE(response.body.find("Content-Type: application/json"), std::string::npos);
    }
  }
}

TEST(ServerHostsTest, ALocalServerWithoutKeysAnswersToItsOwnNamesAlone) {
  TestServer test;
  RawClient client(test.port());
  client.Send("GET /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  const RawResponse refused = client.Receive();
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(ErrorCode(refused), "host_not_allowed");
  EXPECT_NE(refused.body.find("--allowed-hosts"), std::string::npos);
  client.Send("OPTIONS /v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(client.Receive().status, 403);
  client.Send("GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:9999\r\n\r\n");
  EXPECT_EQ(client.Receive().status, 200);
  client.Send("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  EXPECT_EQ(client.Receive().status, 200) << "probes have names of their own";

  ServerOptions options;
  options.allowed_hosts = {"models.example"};
  TestServer named(options);
  RawClient other(named.port());
  other.Send("GET /v1/models HTTP/1.1\r\nHost: models.example\r\n\r\n");
  EXPECT_EQ(other.Receive().status, 200);
  other.Send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(other.Receive().status, 403);
}

}  // namespace
}  // namespace graft
