#include "sources/web_connection.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

#include "sources/web_patience.h"
#include "sources/web_proxy.h"
#include "sources/web_testing.h"

namespace graft {
namespace web_connection_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kPlantedToken[] = "hf_planted_secret";

WebOptions Loopback() { return {.reachable = ReachableAddresses({AddressKind::kLoopback})}; }

WebOrder OrderOf(const std::string& url) {
  WebOrder order{.url = *ParseWebUrl(url)};
  order.headers.emplace_back("X-Own", "own");
  order.secret_headers.emplace_back("Authorization",
                                    Secret(std::string("Bearer ") + kPlantedToken));
  order.secret_headers.emplace_back("x-amz-security-token", Secret(kPlantedToken));
  return order;
}

Result<WebAnswer> AskOne(const WebOrder& order, WebOptions options = Loopback()) {
  auto connection = WebConnection::Open(std::move(options));
  EXPECT_TRUE(connection.ok()) << connection.status().ToString();
  return (*connection)->Ask(order);
}

ScriptedReply RedirectTo(const std::string& location) {
  return {.status = 302, .headers = {{"Location", location}}};
}

TEST(WebConnectionTest, SecretsGoToTheFirstServerAlone) {
  ScriptedWeb other([](const AskedOfWeb&) { return ScriptedReply{.body = "bytes"}; });
  ScriptedWeb first([&](const AskedOfWeb& asked) {
    return asked.target == "/a" ? RedirectTo("/b") : RedirectTo(other.Url("/c?sig=x"));
  });
  const Result<WebAnswer> answer = AskOne(OrderOf(first.Url("/a")));
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->body, "bytes");
  EXPECT_TRUE(answer->is_redirected);
  ASSERT_EQ(first.asked().size(), 2u);
  for (const AskedOfWeb& asked : first.asked()) {
    EXPECT_EQ(asked.headers.at("authorization"), std::string("Bearer ") + kPlantedToken);
    EXPECT_EQ(asked.headers.at("x-amz-security-token"), kPlantedToken);
    EXPECT_EQ(asked.headers.at("x-own"), "own");
  }
  const AskedOfWeb last = other.asked().at(0);
  EXPECT_FALSE(last.headers.contains("authorization"));
  EXPECT_FALSE(last.headers.contains("x-amz-security-token"));
  EXPECT_FALSE(last.headers.contains("x-own"));
}

TEST(WebConnectionTest, RedirectsAreFiveAtMost) {
  ScriptedWeb web([](const AskedOfWeb& asked) {
    const int left = std::stoi(asked.target.substr(1));
    return left == 0 ? ScriptedReply{.body = "end"} : RedirectTo("/" + std::to_string(left - 1));
  });
  EXPECT_EQ(AskOne(OrderOf(web.Url("/5")))->body, "end");
  const Status status = AskOne(OrderOf(web.Url("/6"))).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(status.message(), HasSubstr("more than 5 times"));
}

TEST(WebConnectionTest, RedirectsIntoTheInnerNetworkAreRefused) {
  for (const char* const target :
       {"http://169.254.169.254/latest/meta-data", "http://10.0.0.1/", "http://192.168.1.1/",
        "http://[::ffff:169.254.169.254]/", "http://[fe80::1]/", "http://[fd00::1]/",
        "http://2852039166/", "http://0xA9.0xFE.0xA9.0xFE/", "http://0.0.0.0/",
        "http://[64:ff9b::a9fe:a9fe]/"}) {
    ScriptedWeb web([&](const AskedOfWeb&) { return RedirectTo(target); });
    const Status status = AskOne(OrderOf(web.Url("/"))).status();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << target << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr("refused to connect")) << target;
    EXPECT_THAT(status.message(), Not(HasSubstr(kPlantedToken)));
  }
  for (const char* const target :
       {"file:///etc/passwd", "ftp://example.org/", "gopher:x", "http://user:word@127.0.0.1/"}) {
    ScriptedWeb web([&](const AskedOfWeb&) { return RedirectTo(target); });
    const Status status = AskOne(OrderOf(web.Url("/"))).status();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << target << status.ToString();
    EXPECT_THAT(status.message(), HasSubstr("refused a redirect")) << target;
  }
}

// A name that was public when the endpoint was set up, and leads to this machine later.
TEST(WebConnectionTest, ANameThatChangesItsAddressIsRefused) {
  ScriptedWeb web([](const AskedOfWeb&) { return ScriptedReply{.body = "inner"}; });
  for (const char* const address : {"127.0.0.1", "::ffff:127.0.0.1", "::1", "169.254.169.254"}) {
    const std::string port = std::to_string(web.port());
    const WebOptions options{.resolved = {"hub.example.org:" + port + ":" + address}};
    const Status status = AskOne(OrderOf("http://hub.example.org:" + port + "/"), options).status();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied) << address << status.ToString();
  }
  EXPECT_TRUE(web.asked().empty());
}

TEST(WebConnectionTest, AnswersThatAreCutAreNoAnswers) {
  ScriptedWeb web(
      [](const AskedOfWeb&) { return ScriptedReply{.body = "0123456789", .cut_after = 4}; });
  EXPECT_EQ(AskOne(OrderOf(web.Url("/"))).status().code(), StatusCode::kUnavailable);
}

TEST(WebConnectionTest, BodiesHaveABound) {
  ScriptedWeb web([](const AskedOfWeb&) { return ScriptedReply{.body = std::string(1000, 'x')}; });
  WebOrder order = OrderOf(web.Url("/"));
  order.body_bytes_max = 999;
  EXPECT_EQ(AskOne(order).status().code(), StatusCode::kResourceExhausted);
  order.body_bytes_max = 1000;
  EXPECT_EQ(AskOne(order)->body.size(), 1000u);
}

TEST(WebConnectionTest, AFaultThatIsToldWithoutAnEndIsCutOff) {
  std::string body(size_t{20} << 20, 'x');
  ScriptedWeb web([&](const AskedOfWeb& asked) {
    return ScriptedReply{.status = 404, .body = asked.target == "/short" ? "no" : body};
  });
  EXPECT_EQ(AskOne(OrderOf(web.Url("/short")))->status, 404);
  const Status status = AskOne(OrderOf(web.Url("/long"))).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("without an end"));
}

TEST(WebConnectionTest, CancelsAndTellsNoQuery) {
  ScriptedWeb web([](const AskedOfWeb&) { return ScriptedReply{.body = "x"}; });
  std::atomic<bool> is_cancelled{true};
  WebOptions options = Loopback();
  options.is_cancelled = &is_cancelled;
  EXPECT_EQ(AskOne(OrderOf(web.Url("/")), options).status().code(), StatusCode::kCancelled);
  const Status refused = AskOne(OrderOf(web.Url("/x?signature=abc")), {}).status();
  EXPECT_THAT(refused.message(), Not(HasSubstr("abc")));
}

TEST(WebUrlTest, ReadsAddressesAndWhereRedirectsLead) {
  const WebUrl url = *ParseWebUrl("HTTPS://Hub.Example.org./a/b?c=d#e");
  EXPECT_EQ(url.Text(), "https://hub.example.org/a/b?c=d");
  EXPECT_EQ(url.ForPeople(), "https://hub.example.org/a/b");
  EXPECT_EQ(ParseWebUrl("http://[::1]:8080")->Text(), "http://[::1]:8080/");
  EXPECT_EQ(ResolveLocation(url, "x")->Text(), "https://hub.example.org/a/x");
  EXPECT_EQ(ResolveLocation(url, "/x?y=http://z")->Text(), "https://hub.example.org/x?y=http://z");
  EXPECT_EQ(ResolveLocation(url, "//cdn.example.org/x")->Text(), "https://cdn.example.org/x");
  for (const char* const bad : {"ftp://x/", "http://", "http://a b/", "http://u@h/", "http://h:0/",
                                "http://h:99999/", "http://h\\x/", "h/x", "http://h%41/"}) {
    EXPECT_FALSE(ParseWebUrl(bad).ok()) << bad;
  }
  EXPECT_EQ(SortedQuery({{"prefix", "a/b +é"}, {"list-type", "2"}, {"delimiter", "/"}}),
            "delimiter=%2F&list-type=2&prefix=a%2Fb%20%2B%C3%A9");
}

TEST(ReachableAddressesTest, KnowsTheKindOfAnAddress) {
  const auto kind_of = [](const char* text) {
    sockaddr_in6 ipv6{};
    ipv6.sin6_family = AF_INET6;
    if (inet_pton(AF_INET6, text, &ipv6.sin6_addr) == 1) {
      return KindOfAddress(reinterpret_cast<const sockaddr*>(&ipv6));
    }
    sockaddr_in ipv4{};
    ipv4.sin_family = AF_INET;
    EXPECT_EQ(inet_pton(AF_INET, text, &ipv4.sin_addr), 1) << text;
    return KindOfAddress(reinterpret_cast<const sockaddr*>(&ipv4));
  };
  using enum AddressKind;
  for (const char* const text : {"8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1",
                                 "::ffff:8.8.8.8", "2002:808:808::1"}) {
    EXPECT_EQ(kind_of(text), kPublic) << text;
  }
  for (const char* const text : {"127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1",
                                 "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"}) {
    EXPECT_EQ(kind_of(text), kLoopback) << text;
  }
  for (const char* const text : {"10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1",
                                 "100.64.0.1", "fd12::1", "::ffff:10.0.0.1"}) {
    EXPECT_EQ(kind_of(text), kPrivate) << text;
  }
  for (const char* const text :
       {"169.254.169.254", "fe80::1", "::ffff:169.254.169.254", "168.63.129.16"}) {
    EXPECT_EQ(kind_of(text), kLinkLocal) << text;
  }
  for (const char* const text :
       {"0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1", "2001:db8::1", "2001::1",
        "198.18.0.1", "64:ff9b:1:a9fe:a9:fe00:808:808"}) {
    EXPECT_EQ(kind_of(text), kOther) << text;
  }
}

TEST(ReachableAddressesTest, AnEndpointHasTheKindsThatItHadAtFirst) {
  const sockaddr_in loopback{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(0x7F000001)}};
  const auto* address = reinterpret_cast<const sockaddr*>(&loopback);
  std::set<AddressKind> kinds;
  const auto resolve = [&](const std::string&) { return kinds; };
  EXPECT_FALSE(ReachableAddresses::Beside("first.example.org", resolve).Check(address).ok());
  kinds = {AddressKind::kPublic};
  EXPECT_FALSE(ReachableAddresses::Beside("first.example.org", resolve).Check(address).ok());
  kinds = {AddressKind::kLoopback};
  EXPECT_FALSE(ReachableAddresses::Beside("first.example.org", resolve).Check(address).ok());
  EXPECT_TRUE(ReachableAddresses::Beside("second.example.org", resolve).Check(address).ok());
}

TEST(WebProxyTest, BehindAProxyNamesAreChecked) {
  for (const char* const name : {"huggingface.co", "cdn-lfs.hf.co"})
    EXPECT_TRUE(IsPublicName(name));
  for (const char* const name : {"localhost", "metadata.google.internal", "10.0.0.1", "0x7f.1",
                                 "2130706433", "::1", "db", "printer.local"}) {
    EXPECT_FALSE(IsPublicName(name)) << name;
  }
}

// A variable of the environment for the length of a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    const char* const before = getenv(name);
    if (before != nullptr) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_.has_value() ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

TEST(WebProxyTest, ListsOfExemptNamesHaveCommasOrBlanks) {
  const Variable proxy("http_proxy", "http://127.0.0.1:1");
  const Variable exempt("no_proxy", "one.example.org, .two.org three.org\tfour.org,10.0.0.0/8");
  const auto has_proxy = [](const std::string& host) {
    return !ProxyFor(*ParseWebUrl("http://" + host + "/")).empty();
  };
  for (const char* const host : {"one.example.org", "x.two.org", "two.org", "three.org",
                                 "x.four.org", "10.1.2.3", "10.255.0.1", "127.0.0.1"}) {
    EXPECT_FALSE(has_proxy(host)) << host;
  }
  for (const char* const host : {"example.org", "atwo.org", "11.1.2.3", "10.org", "[fd00::1]"}) {
    EXPECT_TRUE(has_proxy(host)) << host;
  }
}

// libcurl would read no_proxy in its own way, and go past the proxy to an address that was not
// looked at.
TEST(WebProxyTest, WhatGoesPastAProxyIsChecked) {
  ScriptedWeb inner([](const AskedOfWeb&) { return ScriptedReply{.body = "inner"}; });
  ScriptedWeb proxy([](const AskedOfWeb&) { return ScriptedReply{.body = "by the proxy"}; });
  const Variable used("http_proxy", proxy.Url(""));
  const std::string port = std::to_string(inner.port());
  const WebOptions options{.resolved = {"inner.example.org:" + port + ":127.0.0.1"}};
  const WebOrder order = OrderOf("http://inner.example.org:" + port + "/");
  {
    const Variable exempt("no_proxy", "x.example.org inner.example.org");
    EXPECT_EQ(AskOne(order, options).status().code(), StatusCode::kPermissionDenied);
  }
  // libcurl takes the first for the name.
  for (const char* const list : {"inner.example.org.", "inner.example.org:1", "example.orgs"}) {
    const Variable exempt("no_proxy", list);
    EXPECT_EQ(AskOne(order, options)->body, "by the proxy") << list;
  }
  EXPECT_TRUE(inner.asked().empty());
}

TEST(WebPatienceTest, WaitsAsAskedAndGivesUp) {
  std::vector<int64_t> waits;
  int calls = 0;
  ScriptedWeb web([&](const AskedOfWeb& asked) -> ScriptedReply {
    if (asked.target == "/ever") return {.status = 503};
    ++calls;
    if (calls == 1) return {.status = 429, .headers = {{"RateLimit", "\"api\";r=0;t=55"}}};
    if (calls == 2) return {.status = 503, .headers = {{"Retry-After", "7"}}};
    return {.body = "now"};
  });
  const WebPatienceOptions options{.tries_max = 3,
                                   .sleep = [&](int64_t ns) { waits.push_back(ns / 1'000'000); }};
  const auto connection = WebConnection::Open(Loopback());
  WebPatience patience(options, nullptr);
  EXPECT_EQ(patience.Ask(**connection, OrderOf(web.Url("/")))->body, "now");
  EXPECT_THAT(waits, ::testing::ElementsAre(55'000, 7'000));
  waits.clear();
  const Status status = patience.Ask(**connection, OrderOf(web.Url("/ever"))).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(waits, ::testing::ElementsAre(500, 1000));
}

TEST(WebPatienceTest, ReadsDatesAndRefusesLongWaits) {
  WebAnswer answer{.status = 503};
  answer.headers["retry-after"] = "Sun, 06 Nov 1994 08:49:37 GMT";
  EXPECT_EQ(AskedWaitNs(answer, 784111777 - 10), 10'000'000'000);
  EXPECT_EQ(AskedWaitNs(answer, 784111777 + 10), 0);
  answer.headers["retry-after"] = "Fri, 31 Dec 9999 23:59:59 GMT";
  EXPECT_EQ(AskedWaitNs(answer, 0), (int64_t{1} << 30) * 1'000'000'000);
  answer.headers["retry-after"] = "soon";
  EXPECT_FALSE(AskedWaitNs(answer, 0).has_value());
  WebPatience patience({.sleep = [](int64_t) { FAIL(); }}, nullptr);
  EXPECT_FALSE(patience.WaitAfter(UnavailableError("x"), int64_t{3600} * 1'000'000'000).ok());
  EXPECT_FALSE(patience.WaitAfter(NotFoundError("x")).ok());
}

TEST(SecretTest, WhatServersSendBackIsHidden) {
  const Secret token(kPlantedToken);
  EXPECT_EQ(ForPeople(std::string("you sent ") + kPlantedToken + "\r\nand", {&token}),
            "you sent ***  and");
  // Also where the secret lies across the place at which the text is cut.
  for (size_t before = 250; before < 310; ++before) {
    const std::string said = ForPeople(std::string(before, 'x') + kPlantedToken, {&token});
    EXPECT_EQ(said.find(std::string(kPlantedToken).substr(0, 2)), said.npos) << said;
  }
  std::string many;
  for (int i = 0; i < 400; ++i) many += kPlantedToken;
  EXPECT_EQ(ForPeople(many, {&token}), std::string(300, '*') + " ...");
}

TEST(SecretTest, ChildrenLeaveNoCoreFileEither) {
  const pid_t child = fork();
  if (child == 0) {
    LeaveNoCoreFile();
    execl("/bin/sh", "sh", "-c", "test \"$(ulimit -c)\" = 0", nullptr);
    _exit(2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace web_connection_test
}  // namespace graft
