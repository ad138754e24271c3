// What the log says of requests, and under which id.
#include "server/request_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <memory>

#include "base/json.h"
#include "base/log.h"
#include "base/server_log.h"
#include "http/cors.h"
#include "server/server_testing.h"

namespace graft {
namespace {

// Reads the lines of a JSON log by their "id".
class RequestLogTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(pipe(pipe_), 0);
    auto log =
        ServerLog::Begin({.level = "info", .format = LogFormat::kJson, .descriptor = pipe_[1]});
    ASSERT_TRUE(log.ok()) << log.status().ToString();
    log_ = std::move(*log);
  }
  void TearDown() override {
    log_.reset();
    for (const int end : pipe_) close(end);
    EXPECT_TRUE(InitLog("info").ok());
  }

  std::map<std::string, Json> ReadRequests() {
    log_.reset();
    fcntl(pipe_[0], F_SETFL, O_NONBLOCK);
    std::string all;
    char data[4096];
    for (ssize_t bytes; (bytes = read(pipe_[0], data, sizeof(data))) > 0;) {
      all.append(data, static_cast<size_t>(bytes));
    }
    std::map<std::string, Json> requests;
    for (size_t end; (end = all.find('\n')) != std::string::npos; all.erase(0, end + 1)) {
      const Json line = Json::parse(all.substr(0, end));
      if (line.contains("id")) requests[line["id"]] = line;
    }
    return requests;
  }

  int pipe_[2] = {-1, -1};
  std::unique_ptr<ServerLog> log_;
};

TEST_F(RequestLogTest, EveryRequestIsALine) {
  {
    ServerOptions options;
    options.api_keys_file =
        WriteTempFile("log_keys.json", R"([{"key":"k","tenant":"acme","adapters":["*"]}])");
    TestServer test(options);
    RawClient client(test.port());
    const auto post = [&](const std::string& id, const std::string& body, bool with_key) {
      const std::string key = with_key ? "Authorization: Bearer k\r\n" : "";
      return client.Post("/v1/completions?secret=1", body, key + "X-Request-Id: " + id + "\r\n");
    };
    const std::string body = R"({"model":"austen","prompt":"Once","max_tokens":3)";
    EXPECT_EQ(post("whole-1", body + "}", true).headers.at("x-request-id"), "whole-1");
    EXPECT_EQ(post("stream-1", body + R"(,"stream":true})", true).status, 200);
    EXPECT_EQ(post("nobody-1", body + "}", false).status, 401);
    test.generator.set_fail_after(0);
    EXPECT_EQ(post("failed-1", body + "}", true).status, 500);
    EXPECT_EQ(client.Get("/health", "X-Request-Id: probe-1\r\n").status, 200);
    client.Send("GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a b\r\n\r\n");
    EXPECT_TRUE(client.Receive().headers.at("x-request-id").starts_with("req_"));
  }
  const std::map<std::string, Json> requests = ReadRequests();
  for (const char* id : {"whole-1", "stream-1"}) {
    ASSERT_EQ(requests.count(id), 1u) << id;
    const Json& line = requests.at(id);
    EXPECT_EQ(line["level"], "info");
    EXPECT_EQ(line["method"], "POST");
    EXPECT_EQ(line["path"], "/v1/completions");
    EXPECT_EQ(line["status"], 200);
    EXPECT_EQ(line["tenant"], "acme");
    EXPECT_EQ(line["model"], "austen");
    EXPECT_GT(line["prompt_tokens"], 0);
    EXPECT_EQ(line["output_tokens"], 3);
    EXPECT_TRUE(line["ms"].is_number());
    EXPECT_FALSE(line.contains("error"));
  }
  ASSERT_EQ(requests.count("nobody-1"), 1u);
  EXPECT_EQ(requests.at("nobody-1")["status"], 401);
  EXPECT_FALSE(requests.at("nobody-1").contains("tenant"));
  ASSERT_EQ(requests.count("failed-1"), 1u);
  EXPECT_EQ(requests.at("failed-1")["level"], "error");
  EXPECT_EQ(requests.at("failed-1")["error"], "the fake engine failed as told");
  EXPECT_EQ(requests.count("probe-1"), 0u) << "probes that go well are said at debug alone";
}

TEST_F(RequestLogTest, AFailureOfTheServerIsALineThoughRequestsAreNot) {
  {
    ServerOptions options;
    options.logs_requests = false;
    TestServer test(options);
    RawClient client(test.port());
    const std::string body = R"({"model":"austen","prompt":"Once","max_tokens":9)";
    const auto post = [&](const std::string& id, const std::string& rest) {
      return client.Post("/v1/completions", body + rest, "X-Request-Id: " + id + "\r\n").status;
    };
    EXPECT_EQ(post("whole-1", "}"), 200);
    EXPECT_EQ(post("wrong-1", R"(,"n":0})"), 400);
    test.generator.set_fail_after(2);
    EXPECT_EQ(post("failed-1", "}"), 500);
    // Where the failure comes before the first event has been sent, it is the answer's status.
    EXPECT_THAT(post("failed-2", R"(,"stream":true})"), ::testing::AnyOf(200, 500));
  }
  const std::map<std::string, Json> requests = ReadRequests();
  ASSERT_EQ(requests.size(), 2u);
  for (const char* id : {"failed-1", "failed-2"}) {
    ASSERT_EQ(requests.count(id), 1u) << id;
    EXPECT_EQ(requests.at(id)["level"], "error");
    EXPECT_EQ(requests.at(id)["error"], "the fake engine failed as told");
  }
}

TEST(RequestIdTest, WhatClientsMayCallTheirRequests) {
  EXPECT_EQ(RequestIdFor("0af7-65:x/y.z_A+=@"), "0af7-65:x/y.z_A+=@");
  EXPECT_EQ(RequestIdFor(std::string(128, 'a')), std::string(128, 'a'));
  for (const std::string& bad :
       {std::string(), std::string("a b"), std::string("a\r\nX: y"), std::string("ä"),
        std::string("\x1b[31m"), std::string(129, 'a')}) {
    EXPECT_TRUE(RequestIdFor(bad).starts_with("req_")) << bad;
  }
}

TEST(RequestIdTest, TraceparentsAreTakenInW3csForm) {
  const std::string good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  EXPECT_EQ(TraceparentFrom(good), good);
  for (const std::string& bad :
       {std::string(), good + "0", good.substr(1), "01" + good.substr(2), "00_" + good.substr(3),
        "00-0AF7" + good.substr(7), "00-" + std::string(32, '0') + good.substr(35),
        good.substr(0, 36) + std::string(16, '0') + "-01", good.substr(0, 53) + "\x1b["}) {
    EXPECT_EQ(TraceparentFrom(bad), "") << bad;
  }
}

std::string AllowedHeaders(const std::string& allowed_origin, const HttpRequest& request) {
  const auto headers = PreflightHeaders(allowed_origin, request);
  EXPECT_EQ(headers.at(0).first, "Access-Control-Allow-Headers");
  return headers[0].second;
}

// Whatever clients, gateways and tracers send: the server ignores what it does not know.
TEST(CorsTest, AllowedPagesMaySendWhatTheyAskFor) {
  HttpRequest request{.origin = "https://app.example"};
  const std::string fixed = AllowedHeaders("*", request);
  for (const char* name : {"Authorization", "Content-Type", "X-Request-Id"}) {
    EXPECT_NE(fixed.find(name), std::string::npos) << name;
  }
  request.cors_request_headers =
      "authorization,content-type,http-referer, x-title ,traceparent,x-api-key,user-agent,"
      "x-stainless-new-one,anthropic-dangerous-direct-browser-access";
  for (const char* origin : {"*", "https://app.example"}) {
    const std::string allowed = AllowedHeaders(origin, request);
    for (const char* name : {"http-referer", "x-title", "traceparent", "x-api-key", "user-agent",
                             "x-stainless-new-one", "anthropic-dangerous-direct-browser-access"}) {
      EXPECT_NE(allowed.find(std::string(", ") + name), std::string::npos) << name;
    }
  }
  EXPECT_EQ(AllowedHeaders("https://other.example", request), fixed) << "not this page's";
  request.cors_request_headers = "x-a,b c,x-\r\nSet-Cookie: d,,x(e),\"f\",x-g";
  EXPECT_EQ(AllowedHeaders("*", request), fixed + ", x-a, x-g") << "names alone";
}

TEST(CorsTest, AllowedPagesReachAPrivateNetworkWhereTheyAsk) {
  const auto has_it = [](const std::string& allowed_origin, bool asks) {
    const HttpRequest request{.cors_private_network = asks, .origin = "https://app.example"};
    for (const auto& [name, value] : PreflightHeaders(allowed_origin, request)) {
      if (name == "Access-Control-Allow-Private-Network") return value == "true";
    }
    return false;
  };
  EXPECT_TRUE(has_it("*", true));
  EXPECT_TRUE(has_it("https://app.example", true));
  EXPECT_FALSE(has_it("*", false));
  EXPECT_FALSE(has_it("https://other.example", true));
}

TEST(CorsTest, PagesMayReadTheRequestsId) {
  ServerOptions options;
  options.cors_allow_origin = "*";
  TestServer test(options);
  RawClient client(test.port());
  EXPECT_NE(
      client.Get("/v1/models").headers.at("access-control-expose-headers").find("X-Request-Id"),
      std::string::npos);
  client.Send(
      "OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: https://a.example\r\n"
      "Access-Control-Request-Private-Network: true\r\n"
      "Access-Control-Request-Headers: authorization,x-title\r\n\r\n");
  const RawResponse answer = client.Receive();
  EXPECT_NE(answer.headers.at("access-control-allow-headers").find("x-title"), std::string::npos);
  EXPECT_EQ(answer.headers.at("access-control-allow-private-network"), "true");
}

}  // namespace
}  // namespace graft
