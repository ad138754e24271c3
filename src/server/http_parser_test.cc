#include "server/http_parser.h"

#include <gtest/gtest.h>

#include "server/routes.h"

namespace graft {
namespace {

constexpr HttpParserLimits kLimits{.head_bytes_max = 512, .body_bytes_max = 64};

// Parses `text` in pieces of `step` bytes until the request or an error is there.
std::unique_ptr<HttpParser> Parse(const std::string& text, size_t step, std::string* rest) {
  auto parser = std::make_unique<HttpParser>(kLimits);
  rest->clear();
  for (size_t i = 0; i < text.size(); i += step) {
    rest->append(text.substr(i, step));
    for (int stage = 0; stage < 2; ++stage) {
      if (!parser->done()) parser->Feed(rest);
    }
  }
  return parser;
}

TEST(HttpParserTest, AnyCutGivesTheSameRequest) {
  const std::string text =
      "\r\nPOST /v1/completions?x=1 HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer k\r\n"
      "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
      "4\r\nabcd\r\n3;ext=1\r\nefg\r\n0\r\nTrailer: x\r\n\r\nGET /next";
  for (const size_t step : {size_t{1}, size_t{2}, size_t{7}, text.size()}) {
    std::string rest;
    const auto parser = Parse(text, step, &rest);
    ASSERT_TRUE(parser->done()) << step;
    EXPECT_EQ(parser->request().method, "POST");
    EXPECT_EQ(parser->request().path, "/v1/completions");
    EXPECT_EQ(parser->request().authorization, "Bearer k");
    EXPECT_EQ(parser->request().body, "abcdefg");
    EXPECT_TRUE(parser->request().keep_alive);
    EXPECT_EQ(rest, "GET /next");
  }
}

TEST(HttpParserTest, BadHttpIsRefused) {
  const std::pair<std::string, int> cases[] = {
      {"nonsense\r\n\r\n", 400},
      {"GET / HTTP/9.9\r\n\r\n", 400},
      {"GET  HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length: 65\r\n\r\n", 413},
      {"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n" + std::string(256, 'x'), 413},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(2000, 'x'), 431},
      {"GET / HTTP/1.1\r\nX: " + std::string(600, 'x') + "\r\n\r\n", 431},
      {"GET /" + std::string(600, 'x') + " HTTP/1.1\r\n\r\n", 431},
      {std::string(2000, 'x'), 431},
  };
  for (const auto& [text, status] : cases) {
    for (const size_t step : {size_t{1}, text.size()}) {
      std::string rest;
      const auto parser = Parse(text, step, &rest);
      ASSERT_TRUE(parser->error().has_value()) << text.substr(0, 80) << " by " << step;
      EXPECT_EQ(parser->error()->http_status, status) << text.substr(0, 80) << " by " << step;
    }
  }
}

TEST(HttpParserTest, HttpOneZeroClosesUnlessAsked) {
  std::string rest;
  EXPECT_FALSE(Parse("GET / HTTP/1.0\r\n\r\n", 99, &rest)->request().keep_alive);
  EXPECT_TRUE(
      Parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 99, &rest)->request().keep_alive);
  EXPECT_FALSE(
      Parse("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", 99, &rest)->request().keep_alive);
}

TEST(RoutesTest, PathsAndMethods) {
  EXPECT_EQ(MatchRoute("/v1/models").route, Route::kModels);
  EXPECT_EQ(MatchRoute("/v1/models/a%2Fb").model, "a/b");
  EXPECT_EQ(MatchRoute("/v1/models/a/b").model, "a/b");
  EXPECT_EQ(MatchRoute("/v1/models/").route, Route::kUnknown);
  EXPECT_EQ(MatchRoute("/v1/models/{model}").route, Route::kModel);
  EXPECT_EQ(MatchRoute("/v1").route, Route::kUnknown);
  EXPECT_TRUE(MethodAllowed(Route::kModels, "HEAD"));
  EXPECT_FALSE(MethodAllowed(Route::kCompletions, "GET"));
  EXPECT_EQ(PercentDecode("%zz%4"), "%zz%4");
  EXPECT_EQ(PercentDecode("%41%2f"), "A/");
}

}  // namespace
}  // namespace graft
