#include "trace/http_post.h"

#include <gtest/gtest.h>

#include "trace/fake_collector.h"

namespace graft {
namespace http_post_test {
namespace {

constexpr std::chrono::milliseconds kTimeout(60'000);

TEST(HttpPostTest, ReadsUrls) {
  const auto expect = [](const std::string& url, const HttpTarget& want) {
    const Result<HttpTarget> got = ParseHttpTarget(url);
    ASSERT_TRUE(got.ok()) << url;
    EXPECT_EQ(got->host, want.host);
    EXPECT_EQ(got->port, want.port);
    EXPECT_EQ(got->path, want.path);
  };
  expect("http://collector", {"collector", 80, "/"});
  expect("http://collector:4318", {"collector", 4318, "/"});
  expect("http://10.0.0.1:4318/otlp/a", {"10.0.0.1", 4318, "/otlp/a"});
  expect("http://[::1]:4318", {"::1", 4318, "/"});
  expect("http://[::1]", {"::1", 80, "/"});
  for (const char* const bad :
       {"", "collector:4318", "https://collector", "http://", "http://:4318", "http://a:0",
        "http://a:70000", "http://a:b", "http://a b", "http://a/\r\nX: y", "http://u@a"}) {
    EXPECT_EQ(ParseHttpTarget(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(HttpPostTest, SendsABodyAndTellsTheStatus) {
  FakeCollector collector;
  HttpTarget target = ParseHttpTarget(collector.url() + "/v1/traces").value();
  const std::string body(3 << 20, 'x');  // more than a socket takes at once
  EXPECT_EQ(PostJson(target, body, kTimeout).value(), 200);
  const std::string message = collector.WaitForMessages(1)[0];
  EXPECT_TRUE(message.starts_with("POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1:"));
  EXPECT_NE(message.find("\r\nContent-Type: application/json\r\n"), std::string::npos);
  EXPECT_TRUE(message.ends_with("\r\n\r\n" + body));
  collector.set_status(503);
  EXPECT_EQ(PostJson(target, "{}", kTimeout).value(), 503);
}

TEST(HttpPostTest, SaysThatNobodyAnswers) {
  HttpTarget target;
  {
    FakeCollector collector;
    target = ParseHttpTarget(collector.url()).value();
    collector.set_status(0);
    EXPECT_EQ(PostJson(target, "{}", kTimeout).status().message(), "no answer came");
    collector.set_hold(true);
    EXPECT_EQ(PostJson(target, "{}", std::chrono::milliseconds(50)).status().message(),
              "no answer came");
  }
  EXPECT_EQ(PostJson(target, "{}", kTimeout).status().message(), "nobody listens there");
}

}  // namespace
}  // namespace http_post_test
}  // namespace graft
