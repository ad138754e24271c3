#include "http/http_parser.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "http/host_check.h"

namespace graft {
namespace {

constexpr HttpParserLimits kLimits{.head_bytes_max = 512, .body_bytes_max = 64};

// Parses `text` in pieces of `step` bytes until it has a request or an error.
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
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
       400},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 65\r\n\r\n", 413},
      {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n" +
           std::string(256, 'x'),
       413},
      {"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
           std::string(2000, 'x'),
       431},
      {"GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(600, 'x') + "\r\n\r\n", 431},
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

// A program in front might take part of such a body for another request (RFC 9112, 6.1 and 6.3).
TEST(HttpParserTest, BodiesOfUnclearLengthAreRefused) {
  const std::pair<std::string, int> cases[] = {
      {"Transfer-Encoding: xchunked", 400},
      {"Transfer-Encoding: gzip", 400},
      {"Transfer-Encoding: identity", 400},
      {"Transfer-Encoding: chunked, identity", 400},
      {"Transfer-Encoding: chunked, x", 400},
      {"Transfer-Encoding:", 400},
      {"Transfer-Encoding: \"chunked\"", 400},
      {"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400},
      {"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", 400},
      {"Transfer-Encoding : chunked", 400},
      {"Transfer-Encoding: xchunked\r\nContent-Length: 4", 400},
      {"Content-Length: 4\r\nTransfer-Encoding: identity", 400},
      {"Content-Length: 4, 5", 400},
      {"Content-Length: +4", 400},
      {"Content-Length: 0x4", 400},
      {"Transfer-Encoding: gzip, chunked", 501},
  };
  const std::string inner = "GET /inner HTTP/1.1\r\nHost: h\r\n\r\n";
  for (const auto& [header, status] : cases) {
    std::string rest;
    const auto parser =
        Parse("POST / HTTP/1.1\r\nHost: h\r\n" + header + "\r\n\r\n" + inner, 7, &rest);
    ASSERT_TRUE(parser->error().has_value()) << header;
    EXPECT_EQ(parser->error()->http_status, status) << header;
  }
  std::string rest;
  EXPECT_TRUE(Parse("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 99, &rest)
                  ->error()
                  .has_value());
  EXPECT_TRUE(
      Parse("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: ChunkeD\r\n\r\n0\r\n\r\n", 99, &rest)
          ->done());
}

TEST(HttpParserTest, TheTargetsHostWins) {
  std::string rest;
  EXPECT_EQ(Parse("GET / HTTP/1.1\r\nHost: h:80\r\n\r\n", 99, &rest)->request().host, "h:80");
  const auto absolute = Parse("GET http://a.b:1?x HTTP/1.1\r\nHost: h\r\n\r\n", 99, &rest);
  EXPECT_EQ(absolute->request().host, "a.b:1");
  EXPECT_EQ(absolute->request().path, "/");
}

TEST(HttpParserTest, AnAnnouncedBodyTakesNoMemory) {
  HttpParser parser({.body_bytes_max = uint64_t{1} << 40});
  std::string input = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000000\r\n\r\nab";
  parser.Feed(&input);
  parser.Feed(&input);
  EXPECT_FALSE(parser.error().has_value()) << parser.error()->message;
  EXPECT_EQ(parser.body_bytes(), 2);
}

TEST(HostCheckTest, NamesOfThisMachineAndOthers) {
  const std::vector<std::string> local = ServedHosts({}, "127.0.0.1", false);
  for (const char* host :
       {"localhost", "LocalHost:8000", "localhost.", "127.0.0.1:1", "[::1]:8000", "[::1]", ""}) {
    EXPECT_TRUE(IsServedHost(local, host)) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example:8000", "127.0.0.1.evil.example",
                           "[::1].evil", "[::1", ":8000", "10.0.0.1"}) {
    EXPECT_FALSE(IsServedHost(local, host)) << host;
  }
  EXPECT_TRUE(IsServedHost(ServedHosts({}, "127.0.0.5", false), "127.0.0.5:80"));
  EXPECT_TRUE(IsServedHost(ServedHosts({}, "::1", false), "[::1]:80"));
  // A server that others can reach anyway, or that asks for a key, does not check the host.
  EXPECT_TRUE(IsServedHost(ServedHosts({}, "0.0.0.0", false), "evil.example"));
  EXPECT_TRUE(IsServedHost(ServedHosts({}, "127.0.0.1", true), "evil.example"));
  EXPECT_TRUE(IsServedHost(ServedHosts({"*"}, "127.0.0.1", false), "evil.example"));
  const std::vector<std::string> given = ServedHosts({"API.example"}, "0.0.0.0", true);
  EXPECT_TRUE(IsServedHost(given, "api.example:443"));
  EXPECT_FALSE(IsServedHost(given, "localhost"));
}

TEST(HttpParserTest, HttpOneZeroClosesUnlessAsked) {
  std::string rest;
  EXPECT_FALSE(Parse("GET / HTTP/1.0\r\n\r\n", 99, &rest)->request().keep_alive);
  EXPECT_TRUE(
      Parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 99, &rest)->request().keep_alive);
  EXPECT_FALSE(Parse("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 99, &rest)
                   ->request()
                   .keep_alive);
}

TEST(HttpMessageTest, PathsAreDecoded) {
  EXPECT_EQ(PercentDecode("%zz%4"), "%zz%4");
  EXPECT_EQ(PercentDecode("%41%2f"), "A/");
}

}  // namespace
}  // namespace graft
